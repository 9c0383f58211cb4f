"""What is typed before a screen is there: keys for it, and nothing on the terminal meanwhile."""

from __future__ import annotations

import contextlib
import os
import signal
import termios
from typing import Any

_FLAGS = 6
"""Of the settings; what follows is a list of control characters."""


def keep_keys(fd: int = 0, *, is_starting: bool = False) -> list[Any] | None:
    r"""Switch off the terminal's echo and its editing of lines, for a program that somebody is about
    to show there; Ctrl+C stays a signal. ``is_starting``: the program is on its way, so that Ctrl+\
    is a key for it, and no signal for all that share the terminal with it. The settings as they
    were, to be put back by the caller; ``None`` where it is no terminal, or that of another process
    group. Any thread."""
    with contextlib.suppress(OSError, termios.error):
        if os.tcgetpgrp(fd) != os.getpgrp():
            return None
        before, quiet = termios.tcgetattr(fd), termios.tcgetattr(fd)
        quiet[0] &= ~(termios.ICRNL | termios.INLCR | termios.IXON)
        quiet[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN)
        quiet[6][termios.VMIN], quiet[6][termios.VTIME] = 1, 0
        if is_starting:
            quiet[6][termios.VQUIT] = bytes([os.fpathconf(fd, "PC_VDISABLE")])
        put_back(quiet, fd)
        return before
    return None


def told(settings: list[Any]) -> str:
    """Settings as an argument for a program that is to put them back."""
    *flags, keys = settings
    numbers = [one[0] if isinstance(one, bytes) else one for one in keys]
    return ",".join(map(str, [*flags, *numbers]))


def heard(text: str) -> list[Any]:
    """What :func:`told` has made the text of. Raises ``ValueError``."""
    numbers = [int(one) for one in text.split(",")]
    return [*numbers[:_FLAGS], numbers[_FLAGS:]]


def put_back(settings: list[Any], fd: int = 0) -> None:
    """Unless another process group has the terminal by now; silent if it is gone. Any thread."""
    # A background group that sets the terminal would be stopped. Blocked, not ignored: so any
    # thread may.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
    try:
        with contextlib.suppress(OSError, termios.error):
            if os.tcgetpgrp(fd) == os.getpgrp():
                termios.tcsetattr(fd, termios.TCSANOW, settings)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
