"""File descriptors 0, 1 and 2 of a process that may have been started without them.

The system gives their numbers to whatever is opened next: a spool or a socket of ours would
get what the process's libraries write to their error output, and a child process gets its own
standard streams put in that place.
"""

from __future__ import annotations

import fcntl
import os

_FIRST_OTHER_FD = 3


def fill_standard_streams() -> None:
    """Open the null device for each of 0, 1 and 2 that is closed. Raises ``OSError``."""
    for fd in range(_FIRST_OTHER_FD):
        try:
            os.fstat(fd)
        except OSError:
            # The lowest closed number is taken first.
            opened = os.open(os.devnull, os.O_RDONLY if fd == 0 else os.O_WRONLY)
            os.set_inheritable(opened, True)


def above_standard_streams(fd: int) -> int:
    """The same file under a number above 2; ``fd`` itself if it has one. Raises ``OSError``."""
    if fd >= _FIRST_OTHER_FD:
        return fd
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_OTHER_FD)
    finally:
        os.close(fd)


def lowest(fd: int) -> int:
    """The same file under the lowest free number: one that was inherited from a process with many
    files may be too high for ``select``. Raises ``OSError``."""
    try:
        return os.dup(fd)
    finally:
        os.close(fd)
