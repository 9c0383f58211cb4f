"""Programs in real pseudo-terminals, with a shell or without, and what they show there."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence

import pytest
from terminal_screen import TerminalScreen

PATIENCE_S = 60.0
_BETWEEN_PIECES_S = 0.05
_LONGEST_PICTURE_S = 1.0
_TAKE_TERMINAL = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
_GO_BEHIND = "os.setpgid(0, 0) if os.fork() == 0 else (os.wait(), os._exit(0));"
_BEGIN = "os.execvp(sys.argv[1], sys.argv[1:])"


class PtyTerminal:
    """A terminal window: a program that leads a session of its own, and a screen."""

    GO_WHERE = ""

    def __init__(
        self,
        *command: str,
        columns: int = 100,
        rows: int = 30,
        **environ: str | None,
    ) -> None:
        """``environ``: beside the test's own; ``None`` takes a variable away."""
        self.screen = TerminalScreen(columns, rows)
        self._main, self._other = pty.openpty()
        self._set_size()
        self.before = termios.tcgetattr(self._other)
        wanted = os.environ | {"TERM": "xterm-256color", "LANG": "C.UTF-8"} | environ
        self.process = subprocess.Popen(
            [sys.executable, "-c", _TAKE_TERMINAL + self.GO_WHERE + _BEGIN, *command],
            stdin=self._other,
            stdout=self._other,
            stderr=self._other,
            start_new_session=True,
            env={name: value for name, value in wanted.items() if value is not None},
        )

    def resize(self, columns: int, rows: int) -> None:
        """As a window that is drawn larger or smaller."""
        self.screen.resize(columns, rows)
        self._set_size()

    def type(self, keys: str | bytes) -> None:
        os.write(self._main, keys.encode() if isinstance(keys, str) else keys)

    def read(self, timeout_s: float = 0.05) -> None:
        """Take what has been written to the terminal."""
        while select.select([self._main], [], [], timeout_s)[0]:
            try:
                self.screen.feed(os.read(self._main, 65536))
            except OSError:  # nobody holds the other end
                return
            timeout_s = 0.0

    def pass_over(self) -> None:
        """Take what has been written and show nothing of it, which is much cheaper."""
        while select.select([self._main], [], [], 0.0)[0]:
            os.read(self._main, 65536)

    def until(self, done: Callable[[], object], timeout_s: float = PATIENCE_S) -> None:
        deadline_s = time.monotonic() + timeout_s
        while not done():
            if time.monotonic() > deadline_s:
                pytest.fail("not in time; the screen:\n" + self.screen.text)
            self.read()
        self.settle()

    def settle(self) -> None:
        """Take the rest of a picture: a pseudo-terminal passes 4 KiB on at a time, and on a busy
        machine what follows the looked-for words comes later."""
        deadline_s = time.monotonic() + _LONGEST_PICTURE_S
        taken = -1
        while taken != len(self.screen.written) and time.monotonic() < deadline_s:
            taken = len(self.screen.written)
            self.read(_BETWEEN_PIECES_S)

    def until_shown(self, words: str, timeout_s: float = PATIENCE_S) -> None:
        self.until(lambda: words in self.screen.text, timeout_s)

    def quiet_for(self, seconds: float) -> bytes:
        """What is written within ``seconds``."""
        start, deadline_s = len(self.screen.written), time.monotonic() + seconds
        while time.monotonic() < deadline_s:
            self.read()
        return self.screen.written[start:]

    def settings(self) -> list[object]:
        return termios.tcgetattr(self._other)

    def is_raw(self) -> bool:
        return not termios.tcgetattr(self._other)[3] & termios.ISIG

    def front_group(self) -> int:
        """The foreground process group, as the terminal knows it."""
        return struct.unpack("i", fcntl.ioctl(self._main, termios.TIOCGPGRP, b"\0" * 4))[0]

    def hang_up(self) -> None:
        """As a window that is closed, or a connection that is cut."""
        self._close(is_other_too=True)

    def wait(self, timeout_s: float = PATIENCE_S) -> int:
        """The status of the program, which ends by itself."""
        self.until(lambda: self.process.poll() is not None, timeout_s)
        self.read(0.2)
        return self.process.wait()

    def close(self) -> None:
        self._close(is_other_too=True)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _close(self, *, is_other_too: bool) -> None:
        for name in ("_main", "_other") if is_other_too else ("_main",):
            descriptor: int = getattr(self, name)
            if descriptor >= 0:
                os.close(descriptor)
                setattr(self, name, -1)

    def _set_size(self) -> None:
        size = struct.pack("HHHH", self.screen.rows, self.screen.columns, 0, 0)
        fcntl.ioctl(self._other, termios.TIOCSWINSZ, size)


class BackgroundTerminal(PtyTerminal):
    """The same, in a process group that is not in front."""

    GO_WHERE = _GO_BEHIND


class ShellTerminal(PtyTerminal):
    """A terminal window with an interactive shell that has job control."""

    PROMPT = "READY>"

    def __init__(self, columns: int = 100, rows: int = 30, **environ: str | None) -> None:
        bash = shutil.which("bash")
        if bash is None:
            pytest.skip("no bash")
        super().__init__(
            bash, "--norc", "--noprofile", "--noediting", "-i",
            columns=columns, rows=rows, PS1=self.PROMPT, **environ,
        )  # fmt: skip
        self.until_prompt()

    def until_prompt(self, timeout_s: float = PATIENCE_S) -> None:
        """Once the shell waits for a line on the main screen."""
        self.until(
            lambda: not self.screen.is_alternate and self._last_line().endswith(self.PROMPT),
            timeout_s,
        )

    def enter(self, line: str) -> None:
        self.type(line + "\r")

    def run(self, line: str) -> None:
        """Enter a line and wait until it is done."""
        before = self.prompts()
        self.enter(line)
        self.until_prompted(before)

    def prompts(self) -> int:
        """How often the shell has asked for a line so far."""
        return self.screen.written.count(self.PROMPT.encode())

    def until_prompted(self, before: int) -> None:
        """Once the shell asks for a line again, on whatever screen: the terminal is as it has it
        then. What is typed before may come to nothing, as no one makes a line of it."""
        self.until(lambda: self.prompts() > before)

    def _last_line(self) -> str:
        return next((line for line in reversed(self.screen.lines) if line), "")


def command_line(arguments: Sequence[str]) -> str:
    """For a shell."""
    return shlex.join(arguments)
