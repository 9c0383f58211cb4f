"""The programs in a real terminal: they paint, they close, they leave it as it was."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pty_terminals import BackgroundTerminal, PtyTerminal

from unilab_metrics.errors import ExitCode

PROGRAM = Path(__file__).parent.parent / "support" / "sample_run.py"
ENDS = {"SIGTERM": 143, "SIGQUIT": 131, "SIGHUP": 129, "SIGINT": 0}
TERM = "xterm-256color"
OFF = {"1049": False, "25": True, "7": True, "1000": False, "1003": False, "1006": False,
       "1004": False, "2004": False}  # fmt: skip


@pytest.fixture
def start() -> Iterator[Callable[..., PtyTerminal]]:
    made: list[PtyTerminal] = []

    def make(*arguments: str, background: bool = False, term: str = TERM) -> PtyTerminal:
        kind = BackgroundTerminal if background else PtyTerminal
        made.append(kind(sys.executable, *arguments, TERM=term))
        return made[-1]

    yield make
    for terminal in made:
        terminal.close()


def assert_restored(terminal: PtyTerminal) -> None:
    assert terminal.settings() == terminal.before
    assert terminal.screen.modes() == OFF


def test_it_paints_and_q_leaves_the_terminal_as_it_was(start: Callable[..., PtyTerminal]):
    terminal = start(str(PROGRAM))
    terminal.until_shown("Losses and policy")
    for words in ("SAC · cart_pole_balance · GPUs 2", "Avg 2s (n=", "● 4 live", "Learner Action"):
        terminal.until_shown(words)
    assert terminal.settings() != terminal.before
    terminal.type("q")
    assert terminal.wait() == 0
    assert_restored(terminal)
    # What nobody clicks asks for no mouse reports.
    assert b"?1000h" not in terminal.screen.written
    assert b"?1003h" not in terminal.screen.written


@pytest.mark.parametrize(
    "way",
    ["ctrl+c", "SIGTERM", *(pytest.param(one, marks=pytest.mark.slow) for one in list(ENDS)[1:])],
)
def test_other_ways_to_close_restore_it_too(start: Callable[..., PtyTerminal], way: str):
    terminal = start(str(PROGRAM))
    terminal.until_shown("Losses and policy")
    if way == "ctrl+c":
        terminal.type("\x03")
        # What a launcher is to know; for everybody else the program makes it 0.
        assert terminal.wait() == ExitCode.INTERRUPTED
    else:
        number, status = signal.Signals[way], ENDS[way]
        terminal.process.send_signal(number)
        assert terminal.wait() == status
    assert_restored(terminal)


def test_it_follows_a_resize(start: Callable[..., PtyTerminal]):
    terminal = start(str(PROGRAM))
    terminal.until_shown("Losses and policy")
    assert "Timing" not in terminal.screen.text
    terminal.resize(80, 30)
    terminal.until_shown("Timing")
    terminal.type("q")
    assert terminal.wait() == 0


def test_it_closes_by_itself_after_the_run_when_launched(start: Callable[..., PtyTerminal]):
    # The same program, which lets the last picture stand for a shorter time.
    code = (
        "import runpy, sys, unilab_sidecar.looking.for_a_while as ends; ends.LINGER_S = 0.3; sys.argv.pop(0);"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    arguments = ("--end-after", "2", "--exit-with-run")
    terminal = start("-c", code, str(PROGRAM), *arguments)
    # It may be gone from the screen before anybody has looked.
    terminal.until(lambda: b"run ended: completed" in terminal.screen.written)
    assert terminal.wait() == 0
    assert_restored(terminal)


def test_a_run_that_is_not_there_is_named(start: Callable[..., PtyTerminal], tmp_path: Path):
    terminal = start("-m", "unilab_sidecar", str(tmp_path / "nowhere"))
    assert terminal.wait() == 3
    assert b"nowhere" in terminal.screen.written
    assert b"\x1b" not in terminal.screen.written


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_dumb_terminal_gets_no_screen(
    start: Callable[..., PtyTerminal], tmp_path: Path, term: str
):
    (tmp_path / "run").mkdir()
    terminal = start("-m", "unilab_sidecar", str(tmp_path / "run"), term=term)
    assert terminal.wait() == 3
    assert b"\x1b" not in terminal.screen.written


def test_in_the_background_it_neither_stops_nor_paints(
    start: Callable[..., PtyTerminal], tmp_path: Path
):
    (tmp_path / "run").mkdir()
    terminal = start("-m", "unilab_sidecar", str(tmp_path / "run"), background=True)
    assert terminal.wait() == 0
    assert b"holds no run" in terminal.screen.written
    assert b"\x1b" not in terminal.screen.written


def test_piped_output_has_no_escape_codes_and_ends_with_the_run():
    result = subprocess.run(
        [sys.executable, str(PROGRAM), "--plain", "--end-after", "4"],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=100, check=False,
    )  # fmt: skip
    assert (result.returncode, result.stderr) == (0, b"")
    assert b"\x1b" not in result.stdout
    assert b"\r" not in result.stdout
    assert result.stdout.splitlines()[-1].startswith(b"run ended: completed  last reported reward ")
