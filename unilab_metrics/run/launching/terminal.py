"""The terminal of a launcher: who may take it, and how it becomes usable again.

A terminal program that is killed leaves raw mode, the alternate screen, mouse reports and
bracketed paste on. Whoever spawned it puts them back, but only then: off the alternate screen
tmux takes ``?1049l`` for a jump to where the cursor was when a program last left it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import termios
from collections.abc import Generator, Mapping
from typing import Any

from unilab_metrics.typed_ahead import keep_keys, told

# DECSC first: where the alternate screen was off, ?1049l would move the cursor.
RESET_MODES = (
    "\x1b7\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l"
    "\x1b[?1004l\x1b[?2004l\x1b[?7h\x1b[<u"
)
_STANDARD_FDS = (0, 1, 2)


def can_take_terminal(environ: Mapping[str, str]) -> bool:
    """Whether a full-screen program may run here that nobody asked for: as :func:`has_terminal`,
    and ``CI`` does not speak against it."""
    return environ.get("CI", "").lower() in {"", "0", "false"} and has_terminal(environ)


def has_terminal(environ: Mapping[str, str]) -> bool:
    """Whether input, output and errors are a terminal, we are its foreground group, and ``TERM``
    does not speak against a full-screen program."""
    if environ.get("TERM", "dumb") in {"", "dumb"}:
        return False
    if not all(_is_terminal(fd) for fd in _STANDARD_FDS):
        return False
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


class TerminalState:
    """The settings of a terminal as they were, to be restored any number of times."""

    def __init__(self, fd: int = 0) -> None:
        """Remember the settings of ``fd``. Raises ``termios.error`` if it is no terminal."""
        self._fd = fd
        self._attributes: list[Any] = termios.tcgetattr(fd)

    def restore(self, *, modes: bool) -> None:
        """Settings as before, and with ``modes`` what a killed program has left switched on;
        silent if the terminal is gone. A shell that has put us in the background has set the
        terminal for itself: its settings stay."""
        with _unstoppable(), contextlib.suppress(OSError, termios.error):
            if modes:
                os.write(self._fd, RESET_MODES.encode())
            if not self._is_of_others():
                termios.tcsetattr(self._fd, termios.TCSANOW, self._attributes)

    def keep_keys(self, *, is_starting: bool = False) -> None:
        r"""What is typed from now on waits for whoever reads it, and is not echoed; Ctrl+C and Ctrl+Z
        stay signals, Ctrl+\ too unless a screen ``is_starting``, which it closes. Nothing happens
        while another process group has the terminal."""
        keep_keys(self._fd, is_starting=is_starting)

    def told(self) -> str:
        """The settings as an argument for a program that puts them back if we cannot."""
        return told(self._attributes)

    @property
    def is_raw(self) -> bool:
        """Whether a program has all keys now, also those that are signals otherwise."""
        try:
            return not termios.tcgetattr(self._fd)[3] & termios.ISIG
        except (OSError, termios.error):
            return False

    def restore_if_ours(self, *, modes: bool) -> None:
        """As :meth:`restore`, but nothing while another process group has the terminal."""
        if not self._is_of_others():
            self.restore(modes=modes)

    def _is_of_others(self) -> bool:
        try:
            return os.tcgetpgrp(self._fd) != os.getpgrp()
        except OSError:  # a terminal that does not control us
            return False


@contextlib.contextmanager
def _unstoppable() -> Generator[None]:
    """A background group that sets the terminal would be stopped by SIGTTOU. Blocked, not ignored:
    so any thread may."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _is_terminal(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return False
