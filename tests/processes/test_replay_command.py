"""``unilab-metrics replay`` in a real terminal, as lines, and on what cannot be played."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from long_history import LongHistory
from pty_terminals import PtyTerminal

from unilab_metrics.storage.segments import list_segments

COMMAND = (sys.executable, "-m", "unilab_metrics", "replay")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> LongHistory:
    history = LongHistory(tmp_path_factory.mktemp("replay") / "run")
    history.updates(3000)
    history.end()
    history.write()
    return history


def printed(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.slow
def test_a_finished_run_is_played_in_a_terminal_until_its_last_picture(made: LongHistory) -> None:
    place = {"XDG_STATE_HOME": os.fspath(made.run_dir.parent / "state")}
    terminal = PtyTerminal(
        *COMMAND, os.fspath(made.run_dir), "--speed", "0.5", "--from", "2000", columns=120, rows=36,
        **place,
    )  # fmt: skip
    try:
        terminal.until_shown("REPLAY 0.5×")
        terminal.until_shown("iter 20")
        terminal.type(" ")
        terminal.until_shown("PAUSED at iteration 2,")
        terminal.type("\x1b[H")
        terminal.until_shown("PAUSED at iteration 1 ")
        terminal.type("\x1b[5~" + "\x1b[6~" * 4)
        terminal.until_shown("PAUSED at iteration 600")
        terminal.type("]]]]]]]]] ")
        terminal.until_shown("REPLAY 500×")
        terminal.until_shown("run ended: completed")
        terminal.until_shown("iter 3000")
        terminal.type("q")
        assert terminal.wait() == 0
        assert not terminal.screen.is_alternate
    finally:
        terminal.close()


@pytest.mark.slow
def test_a_run_is_played_as_lines_and_its_figures_at_an_iteration(made: LongHistory) -> None:
    done = printed(os.fspath(made.run_dir), "--speed", "2000", "--lines", "--interval", "0.1")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1].partition("  ")[0] == "run ended: completed"
    assert lines[-2].startswith("iter 3000")
    done = printed(os.fspath(made.run_dir), "--from", "1500", "--once", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["iteration"] == 1500


@pytest.mark.slow
def test_what_cannot_be_played_ends_with_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert printed(os.fspath(tmp_path / "empty")).returncode == 3
    assert printed(os.fspath(tmp_path), "--speed", "0").returncode == 2
    history = LongHistory(tmp_path / "run")
    history.updates(5)
    history.write()
    (path,) = list_segments(history.bus_dir, "history")
    data = path.read_bytes()
    path.write_bytes(data[:2] + bytes([9]) + data[3:])
    unknown = printed(os.fspath(history.run_dir))
    assert unknown.returncode == 6, unknown.stderr
    path.write_bytes(bytes(b ^ 0x55 for b in data))
    damaged = printed(os.fspath(history.run_dir))
    assert damaged.returncode == 6, damaged.stderr
    assert "Traceback" not in unknown.stderr + damaged.stderr
