"""What the system tells of a process of this node: whether it is the one that is meant, and how
it ended. A pid alone names nobody, because pids are used again.

Reads only; nothing here signals anybody. Where the system tells nothing, the answer is ``None``.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import struct
import time
from pathlib import Path

_STATE, _FLAGS, _START_TICKS, _EXIT_STATUS = 0, 6, 19, 49
"""Positions in :func:`stat_fields`; see proc_pid_stat(5)."""
_ENDED = frozenset({"Z", "X"})
_EXITING = 0x4
"""``PF_EXITING``: gives back its memory, then its files, and with them its locks."""
_TOLERANCE_NS = 20_000_000
"""A start is given in ticks of a hundredth of a second."""
# Linux 6.15: a pidfd tells the wait status of a process that its parent has waited for.
_INFO_BYTES = 64
_INFO_EXIT = 1 << 3
_PIDFD_GET_INFO = (3 << 30) | (_INFO_BYTES << 16) | (0xFF << 8) | 11
_EXIT_STATUS_AT = 60


def pid_space() -> int:
    """Names the pid namespace of this process: containers of one node have their own pids, and may
    have one host name. 0 where the system has none."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def stat_fields(pid: int) -> list[str]:
    """Fields of ``/proc/<pid>/stat`` from the state on; empty where there is no such file."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes().decode(errors="replace")
    except OSError:
        return []
    return text[text.rfind(")") + 2 :].split()  # the command's name may hold anything


def was_running(pid: int, mono_ns: int) -> bool:
    """Whether the process that has this pid now had it at ``mono_ns`` of this boot's monotonic
    clock already, so that it is the very process that was meant then."""
    return _was_running(stat_fields(pid), mono_ns)


def is_running(pid: int, mono_ns: int) -> bool:
    """Whether that very process has not ended; false where the system does not tell."""
    fields = stat_fields(pid)
    return _was_running(fields, mono_ns) and fields[_STATE] not in _ENDED


def has_open(pid: int, path: Path) -> bool:
    """Whether that process has the very file open; false where the system does not tell."""
    try:
        meant = os.stat(path, follow_symlinks=False)
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False
    for name in names:
        with contextlib.suppress(OSError):
            found = os.stat(f"/proc/{pid}/fd/{name}")
            if (found.st_dev, found.st_ino) == (meant.st_dev, meant.st_ino):
                return True
    return False


def is_ending(pid: int) -> bool:
    """Whether that process is gone, on its way out, or killed and not out yet: nothing keeps the
    files and locks that it may still hold. False where the system does not tell."""
    fields = stat_fields(pid)
    if not fields:
        return bool(stat_fields(os.getpid()))
    with contextlib.suppress(IndexError, ValueError):
        if fields[_STATE] in _ENDED or int(fields[_FLAGS]) & _EXITING:
            return True
    return _is_killed(pid)


def _is_killed(pid: int) -> bool:
    """Whether a SIGKILL waits for it, so that it will run no more."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_bytes().splitlines():
            name, _, value = line.partition(b":")
            if name in {b"SigPnd", b"ShdPnd"} and int(value, 16) & (1 << (signal.SIGKILL - 1)):
                return True
    return False


class Watched:
    """A live process of this node whose end is to be learnt; owned by one thread."""

    def __init__(self, pid: int, mono_ns: int) -> None:
        """The process that had ``pid`` at ``mono_ns``; another one is never taken for it."""
        self._pid = pid
        self._mono_ns = mono_ns
        self._fd = _pidfd(pid)
        if self._fd >= 0 and not was_running(pid, mono_ns):
            self.close()

    def wait_status(self) -> int | None:
        """How it ended, as ``os.wait`` gives it; ``None`` if that cannot be learnt, or if it has
        not ended."""
        fields = stat_fields(self._pid)
        if _was_running(fields, self._mono_ns) and fields[_STATE] in _ENDED:
            with contextlib.suppress(IndexError, ValueError):
                return int(fields[_EXIT_STATUS])
        return _status_of_pidfd(self._fd) if self._fd >= 0 else None

    def close(self) -> None:
        """Hold nothing any more; idempotent."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


def _was_running(fields: list[str], mono_ns: int) -> bool:
    if len(fields) <= _START_TICKS:
        return False
    try:
        started_ns = int(fields[_START_TICKS]) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        # Ticks count on in suspend, the monotonic clock does not.
        suspended_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
    except (ValueError, OSError, AttributeError):
        return False
    return started_ns <= mono_ns + suspended_ns + _TOLERANCE_NS


def _pidfd(pid: int) -> int:
    opened = getattr(os, "pidfd_open", None)  # Linux only
    if opened is None:
        return -1
    try:
        return opened(pid)
    except OSError:
        return -1


def _status_of_pidfd(fd: int) -> int | None:
    answer = bytearray(_INFO_BYTES)
    struct.pack_into("=Q", answer, 0, _INFO_EXIT)
    try:
        fcntl.ioctl(fd, _PIDFD_GET_INFO, answer)
    except OSError:
        return None  # a system that does not know the question
    told = struct.unpack_from("=Q", answer)[0] & _INFO_EXIT
    return struct.unpack_from("=i", answer, _EXIT_STATUS_AT)[0] if told else None
