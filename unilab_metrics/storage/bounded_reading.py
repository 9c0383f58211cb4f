"""Reading files that others may have put there: no pipe, no device, no more than a bound."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from unilab_metrics.errors import IrregularFileError, StorageError

_NO_FILE = "is no regular file"


def read_regular(path: Path, max_bytes: int) -> bytes:
    """The bytes of a regular file. Raises ``IrregularFileError`` for anything else,
    ``StorageError`` beyond ``max_bytes``, and ``OSError``."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise IrregularFileError(path, _NO_FILE)
        if status.st_size > max_bytes:
            raise StorageError(path, f"more than {max_bytes} bytes")
        return os.pread(fd, max_bytes, 0)
    finally:
        os.close(fd)


def read_end(path: Path, max_bytes: int) -> bytes:
    """The last bytes of a regular file. Raises ``OSError``, ``IrregularFileError`` for anything else
    and for a symlink."""
    fd = open_regular(path, follow=False)
    try:
        return os.pread(fd, max_bytes, max(os.fstat(fd).st_size - max_bytes, 0))
    finally:
        os.close(fd)


def open_regular(path: Path, *, follow: bool = True) -> int:
    """A descriptor of a regular file for reading. Raises ``OSError``, and ``IrregularFileError`` for
    anything else and for a symlink unless ``follow``."""
    # A pipe without a writer would hold up a blocking open.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        fd = os.open(path, flags if follow else flags | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ELOOP and path.is_symlink() and not follow:
            raise IrregularFileError(path, "is a symlink", errno.ELOOP) from error
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise IrregularFileError(path, _NO_FILE)
    return fd
