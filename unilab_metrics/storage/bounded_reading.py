"""Reading files that others may have put there: no pipe, no device, no more than a bound."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from unilab_metrics.errors import StorageError


def read_regular(path: Path, max_bytes: int) -> bytes:
    """The bytes of a regular file. Raises ``StorageError`` for anything else and beyond
    ``max_bytes``, and ``OSError``."""
    data, size_bytes = _read(path, max_bytes, from_end=False)
    if size_bytes > max_bytes:
        raise StorageError(path, f"more than {max_bytes} bytes")
    return data


def read_end(path: Path, max_bytes: int) -> bytes:
    """The last bytes of a regular file. Raises as :func:`read_regular` does."""
    return _read(path, max_bytes, from_end=True)[0]


def open_regular(path: Path, *, follow: bool = True) -> int:
    """A descriptor of a regular file for reading. Raises ``OSError``, for anything else too, and
    for a symlink unless ``follow``."""
    # A pipe without a writer would hold up a blocking open.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        fd = os.open(path, flags if follow else flags | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ELOOP and path.is_symlink() and not follow:
            raise OSError(errno.ELOOP, "is a symlink", os.fspath(path)) from error
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "is no regular file", os.fspath(path))
    return fd


def _read(path: Path, max_bytes: int, *, from_end: bool) -> tuple[bytes, int]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise StorageError(path, "is no regular file")
        offset = max(status.st_size - max_bytes, 0) if from_end else 0
        return os.pread(fd, max_bytes, offset), status.st_size
    finally:
        os.close(fd)
