"""Descriptors in a process that is not ours: out of its way, and known again.

A training may close descriptors that are not its own, as daemons do, and the next file that it
opens gets the lowest free number. What we hold has a high one, which few come to, and is asked
whether it is still the same file.
"""

from __future__ import annotations

import fcntl
import os
import resource
from contextlib import suppress

_HIGHEST = 4096
"""A table of descriptors is as long as its highest number, and every fork copies it."""
_BELOW_THE_LIMIT = 256


class Held:
    """A descriptor that is to stay ours. Closing is for one thread."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        status = os.fstat(fd)
        self.file = (status.st_dev, status.st_ino)
        """Names the file for as long as it is open."""

    @property
    def is_ours(self) -> bool:
        """Whether the number still means our file: somebody may have closed it."""
        try:
            status = os.fstat(self.fd)
        except (OSError, OverflowError):
            return False
        return (status.st_dev, status.st_ino) == self.file

    def close(self) -> None:
        """Close it, unless it has become somebody else's; idempotent."""
        if self.fd >= 0 and self.is_ours:
            with suppress(OSError):
                os.close(self.fd)
        self.fd = -1


def out_of_the_way(fd: int) -> int:
    """The same open file under a high number, closed on exec; ``fd`` is closed. ``fd`` itself
    where there is no such number.

    Not for a file on which this process holds a lock: closing any descriptor frees it.
    """
    try:
        moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, lowest_number())
    except (OSError, ValueError):
        return fd
    os.close(fd)
    return moved


def lowest_number() -> int:
    """Numbers from here to the limit are the highest that this process has."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _HIGHEST if soft == resource.RLIM_INFINITY else min(soft, _HIGHEST)
    return max(limit - _BELOW_THE_LIMIT, limit * 3 // 4)
