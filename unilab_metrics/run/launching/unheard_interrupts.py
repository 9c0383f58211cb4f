"""A child that Ctrl+C does not reach while it starts.

The terminal sends it to every process in front, also to one that is in the middle of its imports
and could only die there, at length. So it is born with the signal blocked, and hears it when it has
said what it is to do then.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Generator


@contextlib.contextmanager
def unheard_interrupts() -> Generator[None]:
    """Children that are started within it have SIGINT blocked, which they inherit over the exec;
    what comes for us meanwhile comes afterwards. Any thread, for its own children."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def hear_interrupts() -> None:
    """In the child, whose handler gets what has come so far."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
