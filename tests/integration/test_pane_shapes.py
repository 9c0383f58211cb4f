"""Where a pane of tmux opens for the sidecar, in a tmux of the test's own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tmux_terminal import Tmux

from unilab_metrics.run.launching.tmux import split_command


@pytest.mark.parametrize("knows_its_pane", [True, False])
@pytest.mark.parametrize(
    ("window", "ours", "opened"),
    [
        ((80, 24), (80, 7), (80, 16)),
        ((119, 30), (119, 9), (119, 20)),
        ((159, 48), (159, 15), (159, 32)),
        ((160, 48), (63, 48), (96, 48)),
        ((220, 60), (109, 60), (110, 60)),
    ],
)
def test_a_pane_is_below_ours_or_where_there_is_room_for_both_beside_it(
    short_path: Path,
    window: tuple[int, int],
    ours: tuple[int, int],
    opened: tuple[int, int],
    *,
    knows_its_pane: bool,
):
    tmux = Tmux(short_path, "exec sleep 60", columns=window[0], rows=window[1])
    try:
        environ = {"TMUX": f"{short_path / 'tmux'},{tmux.state('pid')},0"}
        if knows_its_pane:
            environ["TMUX_PANE"] = tmux.state("pane_id")
        *command, shown = split_command(short_path, environ)
        assert shown.startswith("exec env ")
        done = subprocess.run(
            [*command, "exec sleep 60"],
            env=os.environ | {"LANG": "C.UTF-8"} | environ,
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        sizes = [tuple(map(int, one.split("x"))) for one in tmux.panes()]
        assert sizes == [ours, opened]
        assert done.stdout.strip() == "%1"
        assert tmux.state("pane_id") == "%0"
    finally:
        tmux.kill_server()


def test_without_a_tmux_that_answers_it_says_so(short_path: Path):
    command = split_command(short_path, {"TMUX": f"{short_path / 'none'},1,0", "TMUX_PANE": "%0"})
    environ = os.environ | {"TMUX": f"{short_path / 'none'},1,0"}
    done = subprocess.run(command, env=environ, capture_output=True, timeout=30, check=False)
    assert done.returncode != 0
    assert done.stderr
