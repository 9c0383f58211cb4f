"""The programs in a real terminal: they paint, they close, they leave it as it was."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyte
import pytest

PROGRAM = Path(__file__).parent.parent / "support" / "sample_run.py"
COLUMNS, ROWS = 100, 30
# What the app switches on, and how each of it is switched off.
MODES = {"1049": "l", "25": "h", "1004": "l", "2004": "l"}


class Terminal:
    """A pseudo-terminal with a screen behind it, and a program in its foreground."""

    def __init__(self, *arguments: str, background: bool = False, **environ: str) -> None:
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self.written = b""
        self._stream = pyte.ByteStream(self.screen)
        self._main, self._other = pty.openpty()
        self.resize(COLUMNS)
        self.before = termios.tcgetattr(self._other)
        environment = {"TERM": "xterm-256color", "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        environment |= {"PYTHONPATH": os.environ.get("PYTHONPATH", "")} | environ
        code = (
            "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
            + ("os.setpgid(0, 0) if os.fork() == 0 else (os.wait(), os._exit(0));" * background)
            + "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            stdin=self._other, stdout=self._other, stderr=self._other,
            start_new_session=True, env=environment,
        )  # fmt: skip

    def resize(self, columns: int) -> None:
        self.screen.resize(ROWS, columns)
        size = struct.pack("HHHH", ROWS, columns, 0, 0)
        fcntl.ioctl(self._other, termios.TIOCSWINSZ, size)

    def type(self, keys: str) -> None:
        os.write(self._main, keys.encode())

    def read(self, timeout_s: float = 0.1) -> None:
        if select.select([self._main], [], [], timeout_s)[0]:
            data = os.read(self._main, 65536)
            self.written += data
            self._stream.feed(data)

    def until(self, done: Callable[[], bool], timeout_s: float = 20.0) -> None:
        deadline_s = time.monotonic() + timeout_s
        while not done():
            if time.monotonic() > deadline_s:
                pytest.fail("\n".join(["not in time; the screen:", *self.screen.display]))
            self.read()

    def until_shown(self, words: str) -> None:
        self.until(lambda: any(words in row for row in self.screen.display))

    def wait(self) -> int:
        self.until(lambda: self.process.poll() is not None)
        self.read(0.2)
        return self.process.wait()

    def settings(self) -> list[object]:
        return termios.tcgetattr(self._other)

    def mode_is_left(self, mode: str, off: str) -> bool:
        """Whether the last change of a private mode switched it to ``off``."""
        on = "h" if off == "l" else "l"
        last_on = self.written.rfind(f"\x1b[?{mode}{on}".encode())
        return self.written.rfind(f"\x1b[?{mode}{off}".encode()) >= last_on

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._main)
        os.close(self._other)


@pytest.fixture
def start() -> Iterator[Callable[..., Terminal]]:
    made: list[Terminal] = []

    def make(*arguments: str, background: bool = False, **environ: str) -> Terminal:
        made.append(Terminal(*arguments, background=background, **environ))
        return made[-1]

    yield make
    for terminal in made:
        terminal.close()


def assert_restored(terminal: Terminal) -> None:
    assert terminal.settings() == terminal.before
    for mode, off in MODES.items():
        assert terminal.mode_is_left(mode, off), mode


def test_it_paints_and_q_leaves_the_terminal_as_it_was(start: Callable[..., Terminal]):
    terminal = start(str(PROGRAM))
    terminal.until_shown("Losses and policy")
    for words in ("SAC · cart_pole_balance · GPUs 2", "Avg 2s (n=", "● 4 live", "Learner Action"):
        terminal.until_shown(words)
    assert terminal.settings() != terminal.before
    terminal.type("q")
    assert terminal.wait() == 0
    assert_restored(terminal)


@pytest.mark.parametrize("way", ["ctrl+c", "terminate"])
def test_other_ways_to_close_restore_it_too(start: Callable[..., Terminal], way: str):
    terminal = start(str(PROGRAM))
    terminal.until_shown("Losses and policy")
    if way == "ctrl+c":
        terminal.type("\x03")
        assert terminal.wait() == 0
    else:
        terminal.process.terminate()
        assert terminal.wait() == 128 + signal.SIGTERM
    assert_restored(terminal)


def test_mouse_reports_are_never_asked_for(start: Callable[..., Terminal]):
    terminal = start(str(PROGRAM))
    terminal.until_shown("Losses and policy")
    assert b"?1000h" not in terminal.written
    assert b"?1003h" not in terminal.written
    terminal.type("q")
    assert terminal.wait() == 0


def test_it_follows_a_resize(start: Callable[..., Terminal]):
    terminal = start(str(PROGRAM))
    terminal.until_shown("Losses and policy")
    assert not any("Timing" in row for row in terminal.screen.display)
    terminal.resize(80)
    terminal.until_shown("Timing")
    terminal.type("q")
    assert terminal.wait() == 0


def test_it_closes_by_itself_after_the_run_when_launched(start: Callable[..., Terminal]):
    # The same program, which lets the last picture stand for a shorter time.
    code = (
        "import runpy, sys, unilab_sidecar.app as app; app.LINGER_S = 0.3; sys.argv.pop(0);"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    arguments = ("--end-after", "2", "--exit-with-run")
    terminal = start("-c", code, str(PROGRAM), *arguments)
    terminal.until_shown("run ended: completed")
    assert terminal.wait() == 0
    assert_restored(terminal)


def test_a_run_that_is_not_there_is_named(start: Callable[..., Terminal], tmp_path: Path):
    terminal = start("-m", "unilab_sidecar", str(tmp_path / "nowhere"))
    assert terminal.wait() == 3
    assert b"nowhere" in terminal.written
    assert b"\x1b" not in terminal.written


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_dumb_terminal_gets_no_screen(start: Callable[..., Terminal], tmp_path: Path, term: str):
    (tmp_path / "run").mkdir()
    terminal = start("-m", "unilab_sidecar", str(tmp_path / "run"), TERM=term)
    assert terminal.wait() == 3
    assert b"\x1b" not in terminal.written


def test_in_the_background_it_neither_stops_nor_paints(
    start: Callable[..., Terminal], tmp_path: Path
):
    (tmp_path / "run").mkdir()
    terminal = start("-m", "unilab_sidecar", str(tmp_path / "run"), background=True)
    assert terminal.wait() == 0
    assert b"holds no run" in terminal.written
    assert b"\x1b" not in terminal.written


def test_piped_output_has_no_escape_codes_and_ends_with_the_run():
    result = subprocess.run(
        [sys.executable, str(PROGRAM), "--plain", "--end-after", "4"],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert (result.returncode, result.stderr) == (0, b"")
    assert b"\x1b" not in result.stdout
    assert b"\r" not in result.stdout
    assert result.stdout.splitlines()[-1] == b"run ended: completed"
