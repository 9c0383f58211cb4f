"""BR-63: a linear mode with a stable order of lines, for braille displays and screen readers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pty_terminals import PtyTerminal
from toy_run import ToyRun

from unilab_sidecar.drawing.glyphs import GLYPHS

PROGRAM = Path(__file__).parent.parent / "support" / "sample_run.py"


@pytest.fixture
def run(tmp_path: Path) -> Iterator[ToyRun]:
    made = ToyRun(tmp_path / "run", tmp_path)
    yield made
    made.close()


def said(run: ToyRun, *options: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "unilab_sidecar", str(run.run_dir), *options],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\x1b" not in done.stdout
    assert b"\r" not in done.stdout
    return done.stdout.decode().splitlines()


@pytest.mark.slow
def test_br63_plain_is_a_line_per_metric_sorted_and_without_drawing(run: ToyRun) -> None:
    run.updates(30)
    run.end()
    for lines in (said(run, "--plain"), said(run, "--plain", "--once")):
        assert len(lines) > 3
        names = [line.split(" ", 1)[0] for line in lines]
        assert names == sorted(names)
        assert len(set(names)) == len(names)
        assert all(line.rsplit(" ", 1)[1].rstrip("s.0123456789") in ("", "-") for line in lines)
        assert any(line.startswith("state run ended: completed ") for line in lines)
        assert not set("".join(lines)) & set(GLYPHS)
    assert all(
        line.startswith("iteration ")
        for line in said(run, "--plain", "--filter", "iteration !max !/T/")
    )


@pytest.mark.slow
def test_br63_the_cursor_stays_visible_on_the_screen_when_asked(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from sample_run import FakeSource;"
        "from unilab_sidecar.app import SidecarApp; from unilab_sidecar.feeding.feed import Feed;"
        "app = SidecarApp(Feed(FakeSource, wait_for_bus=False), shows_cursor=sys.argv[2] == '1');"
        "app.run(mouse=False)"
    )
    for asked in ("1", "0"):
        terminal = PtyTerminal(sys.executable, "-c", code, str(PROGRAM.parent), asked)
        try:
            terminal.until_shown("Losses and policy")
            assert terminal.screen.modes()["25"] == (asked == "1")
            terminal.type("q")
            assert terminal.wait() == 0
        finally:
            terminal.close()
