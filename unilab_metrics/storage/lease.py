"""A lease: a file whose POSIX lock says that its process lives.

The kernel frees the lock when the process ends, however it ends, and also when the process
closes *any* descriptor of the file. So a lease file is opened once, and every function here
first asks whether this process holds the file itself and then does not open it.
``lockf`` rather than ``flock``: a forked child does not inherit it. A stopped owner keeps it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
import struct
import sys
import threading
import time
from pathlib import Path

from unilab_metrics.errors import LeaseHeldError
from unilab_metrics.storage.descriptors import Held, out_of_the_way
from unilab_metrics.storage.filesystem import naming
from unilab_metrics.storage.process_table import is_ending

_MAX_PAYLOAD_BYTES = 64 * 1024
_NO_LINKS = frozenset({errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK})
_HELD = frozenset({errno.EACCES, errno.EAGAIN})
_ENDING_S = 5.0
"""How long a killed process may take to give its locks back: its memory goes first."""
_POLL_S = 0.01

_own: dict[tuple[int, int], Lease] = {}
_guard = threading.RLock()

# A forked child inherits the descriptors and the table, but not the locks. The guard is held
# over the fork, so that the child's copy of it is in a known state.
os.register_at_fork(
    before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_own.clear
)
os.register_at_fork(after_in_child=_guard.release)


_ASKING = os.O_RDONLY if sys.platform in {"linux", "darwin"} else os.O_RDWR
"""Asking who holds a lock must also work where nothing may be written."""


class Lease:
    """A lock that this process holds. Made by :meth:`create` and :func:`take`."""

    def __init__(self, path: Path, fd: int, payload: bytes) -> None:
        self.path = path
        self.payload = payload
        self._file = Held(fd)
        self._key = self._file.file
        _own[self._key] = self

    @classmethod
    def create(cls, directory: Path, name: str, payload: bytes) -> Lease:
        """Hold ``directory/name``, with ``payload`` to say who holds it (mode 0600).

        The file is locked before it appears under its name, so nobody ever sees it free. A
        free one of a dead process is taken over; for one that is ending this waits a moment.
        Raises :class:`LeaseHeldError` when a live process (this one included) holds it, and
        ``OSError``.
        """
        path = directory / name
        while True:
            with _guard:
                lease = cls._create_new(path, payload)
            if lease is not None:
                return lease
            taken = take(path)
            if taken is not None:
                taken.rewrite(payload)
                return taken
            pid = settled_pid(path)
            if pid is not None:
                raise LeaseHeldError(path, pid)

    @classmethod
    def _create_new(cls, path: Path, payload: bytes) -> Lease | None:
        temporary = path.with_name(f".{secrets.token_hex(8)}.new")
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with naming(path):
            fd = out_of_the_way(os.open(temporary, flags, 0o600))
            try:
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _write_whole(fd, payload)
                if not _put_in_place(temporary, path):
                    os.close(fd)
                    return None
                return cls(path, fd, payload)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.close(fd)
                raise
            finally:
                with contextlib.suppress(FileNotFoundError):
                    temporary.unlink()

    @property
    def held(self) -> bool:
        """False after :meth:`release` and in a forked child."""
        return self._file.fd >= 0 and _own.get(self._key) is self

    @property
    def is_intact(self) -> bool:
        """Whether nobody in this process has closed our descriptor, and with it freed the lock."""
        return self._file.is_ours

    @property
    def is_in_place(self) -> bool:
        """Whether our file still lies under its name: somebody may have taken the lease away from
        a process that stood still, by removing the file."""
        return self.held and _same_file(self.path, self._key)

    def rewrite(self, payload: bytes) -> None:
        """Say anew who holds it. Raises ``OSError``."""
        if not self.is_intact:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        with naming(self.path):
            os.ftruncate(self._file.fd, 0)
            _write_whole(self._file.fd, payload)
        self.payload = payload

    def release(self, unlink: bool = True) -> None:
        """Free the lock; ``unlink`` removes the file while it is still held. Idempotent; in a
        forked child only the inherited descriptor is closed."""
        if self._file.fd < 0:
            return
        with _guard:
            if self.held:
                if unlink and _same_file(self.path, self._key):
                    with contextlib.suppress(FileNotFoundError):
                        self.path.unlink()
                del _own[self._key]
            self._file.close()


def take(path: Path) -> Lease | None:
    """Hold the lease of a dead process; ``None`` if there is no such file, a live process
    holds it, or it is ours already. Raises ``OSError`` for other failures (no permission)."""
    status = _stat(path)
    if status is not None and not _may_be_ours(status):
        raise OSError(errno.EINVAL, "is no regular file", os.fspath(path))
    while True:
        with _guard:
            fd = _open_foreign(path, os.O_RDWR)
            if fd is None:
                return None
            fd = out_of_the_way(fd)
            try:
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(fd)
                if error.errno in _HELD:
                    return None
                raise
            status = os.fstat(fd)
            if _same_file(path, (status.st_dev, status.st_ino)):
                return Lease(path, fd, os.pread(fd, _MAX_PAYLOAD_BYTES, 0))
            # Its owner unlinked or replaced it between our open and our lock.
            os.close(fd)


def is_free(path: Path) -> bool:
    """Whether no live process holds ``path``; a missing file is free."""
    return owner_pid(path) is None


def owner_pid(path: Path) -> int | None:
    """The pid of the live holder (0 if it is in another pid namespace), ``None`` if free."""
    with _guard:
        status = _stat(path)
        if status is None:
            return None
        if (status.st_dev, status.st_ino) in _own:
            return os.getpid()
        fd = _open_foreign(path, _ASKING)
        if fd is None:
            return None
        try:
            return _locker(fd)
        finally:
            os.close(fd)


def settled_pid(path: Path) -> int | None:
    """As :func:`owner_pid`, after a moment for a holder that is on its way out: a process that
    was killed holds its locks until its memory is given back."""
    deadline_s = time.monotonic() + _ENDING_S
    while (pid := owner_pid(path)) and is_ending(pid) and time.monotonic() < deadline_s:
        time.sleep(_POLL_S)
    return pid


def read_owner(path: Path) -> bytes | None:
    """The payload of a lease file, held or not; ``None`` if there is no such file."""
    with _guard:
        status = _stat(path)
        if status is None:
            return None
        own = _own.get((status.st_dev, status.st_ino))
        if own is not None:
            return own.payload
        fd = _open_foreign(path, os.O_RDONLY)
        if fd is None:
            return None
        try:
            return os.pread(fd, _MAX_PAYLOAD_BYTES, 0)
        finally:
            os.close(fd)


def _open_foreign(path: Path, mode: int) -> int | None:
    status = _stat(path)
    if status is None or (status.st_dev, status.st_ino) in _own:
        return None
    if not _may_be_ours(status):
        return None  # nobody's lease; opening a pipe would wait for its other end
    try:
        return os.open(path, mode | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None


def _may_be_ours(status: os.stat_result) -> bool:
    # A symlink is refused by the open.
    return stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)


def _locker(fd: int) -> int | None:
    """Ask without locking: a probe that locks would make a starting process see it held."""
    layout = {"linux": "hhqqi4x", "darwin": "qqihh"}.get(sys.platform)
    if layout is None:
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _HELD:
                return 0
            raise
        return None
    linux = sys.platform == "linux"
    question = (fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0) if linux else (0, 0, 0, fcntl.F_WRLCK, 0)
    answer = struct.unpack(layout, fcntl.fcntl(fd, fcntl.F_GETLK, struct.pack(layout, *question)))
    kind, pid = (answer[0], answer[4]) if linux else (answer[3], answer[2])
    return None if kind == fcntl.F_UNLCK else max(pid, 0)


def _put_in_place(temporary: Path, path: Path) -> bool:
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(path):
            return False
        temporary.rename(path)
    return True


def _write_whole(fd: int, payload: bytes) -> None:
    if os.pwrite(fd, payload, 0) != len(payload):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _same_file(path: Path, key: tuple[int, int]) -> bool:
    status = _stat(path)
    return status is not None and (status.st_dev, status.st_ino) == key
