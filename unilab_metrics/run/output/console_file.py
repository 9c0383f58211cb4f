"""``console.log``: two files of bounded size, and a word on what did not fit on the disk.

Written by one process. What cannot be written is dropped and counted: whoever prints is not to
be held up or ended by a full disk.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

from unilab_metrics.config import CONSOLE_FILE, EARLIER_CONSOLE_FILE
from unilab_metrics.errors import StorageError, why

FILE_BYTES = 32 * 1024 * 1024
"""A full file becomes the earlier one, so that both together hold at most twice this."""
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_RETRY_S = 1.0
_LOOK_S = 1.0
"""How often it is looked whether the file still has its name."""
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


def check_console(directory: Path) -> None:
    """Raises ``StorageError`` if ``console.log`` can never be written there; that the disk is full
    is no reason, because it may have room later."""
    path = directory / CONSOLE_FILE
    try:
        os.close(os.open(path, _FLAGS, 0o666))
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise StorageError(path, f"cannot be written: {error.strerror}") from error


class ConsoleFile:
    """Appends to ``console.log`` in a directory. Never raises. Owned by one thread."""

    def __init__(
        self,
        directory: Path,
        *,
        file_bytes: int = FILE_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.directory = directory
        self._path = directory / CONSOLE_FILE
        self._file_bytes = file_bytes
        self._clock = clock
        self._fd = -1
        self._size_bytes = 0
        self._retry_s = self._look_s = 0.0
        self._lost_bytes = 0
        self._reason = ""

    def append(self, data: bytes) -> None:
        """Write it, or count it as lost; then the file says so once there is room again."""
        if self._lost_bytes and not self._is_open_again():
            self._lost_bytes += len(data)
            return
        self._write(data)

    def lose(self, count_bytes: int, reason: str) -> None:
        """Bytes that did not come this far."""
        self._lost_bytes += count_bytes
        self._reason = reason

    def close(self) -> None:
        """Say what was lost if that is possible by now; idempotent."""
        if self._lost_bytes:
            self._retry_s = 0.0
            self._is_open_again()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def remove(self) -> None:
        """Close and remove what it has written."""
        self.close()
        for name in (CONSOLE_FILE, EARLIER_CONSOLE_FILE):
            with contextlib.suppress(OSError):
                os.unlink(self.directory / name)

    def _is_open_again(self) -> bool:
        if self._clock() < self._retry_s:
            return False
        self._retry_s = self._clock() + _RETRY_S
        lost_bytes, self._lost_bytes = self._lost_bytes, 0
        note = f"\n[unilab-metrics: {lost_bytes:,} bytes of output are lost: {self._reason}]\n"
        if self._write(note.encode()):
            return True
        self._lost_bytes = lost_bytes
        return False

    def _write(self, data: bytes) -> bool:
        remaining = memoryview(data)
        try:
            self._make_room(len(remaining))
            while remaining:
                written = os.write(self._fd, remaining)
                self._size_bytes += written
                remaining = remaining[written:]
        except OSError as error:
            self._lost_bytes += len(remaining)
            self._reason = why(error)
            self._retry_s = self._clock() + _RETRY_S
            return False
        return True

    def _look(self) -> None:
        """Let go of a file that somebody has renamed or removed: what comes belongs under its
        name, where people and views look."""
        if self._fd < 0 or self._clock() < self._look_s:
            return
        self._look_s = self._clock() + _LOOK_S
        held = os.fstat(self._fd)
        try:
            named = os.lstat(self._path)
        except FileNotFoundError:
            named = None
        if named is None or (named.st_dev, named.st_ino) != (held.st_dev, held.st_ino):
            fd, self._fd = self._fd, -1
            os.close(fd)

    def _make_room(self, wanted_bytes: int) -> None:
        self._look()
        if self._fd < 0:
            self._fd = os.open(self._path, _FLAGS, 0o666)
            self._size_bytes = os.fstat(self._fd).st_size
        if self._size_bytes and self._size_bytes + wanted_bytes > self._file_bytes:
            os.replace(self._path, self.directory / EARLIER_CONSOLE_FILE)
            os.close(self._fd)
            self._fd = -1
            self._fd = os.open(self._path, _FLAGS, 0o666)
            self._size_bytes = os.fstat(self._fd).st_size
