"""Safe binding of ipc endpoints.

libzmq removes whatever lies at the path before it binds: a live server's socket, so that its
new clients go to the newcomer, or a regular file. So we look first, under a lock on the
directory, and leave to libzmq only a path at which nothing lies.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import socket
import stat
import struct
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

from unilab_metrics.errors import EndpointError, EndpointInUseError

MAX_IPC_PATH_BYTES = 103
"""The smaller ``sun_path`` (macOS, 104 with its terminator); Linux would allow 107."""
_LOCK_TIMEOUT_S = 2.0
_ENDPOINT_NAME = re.compile(r"\d+\.(in|out|ask)")
_PREFIX = "ipc://"


def ipc_path(endpoint: str) -> str:
    """The path of an ``ipc://`` endpoint.

    Raises :class:`EndpointError` for other transports (TCP needs keys), abstract sockets,
    relative paths, paths that do not fit and those that no file can have.
    """
    if not endpoint.startswith(_PREFIX):
        raise EndpointError(endpoint, "is no ipc:// endpoint")
    path = endpoint[len(_PREFIX) :]
    if not path.startswith("/"):
        raise EndpointError(endpoint, "must hold an absolute path")
    try:
        size = len(os.fsencode(path))
    except UnicodeEncodeError:
        raise EndpointError(endpoint, "has a path that no file can have") from None
    if "\0" in path:
        raise EndpointError(endpoint, "has a path with a NUL in it")
    if size > MAX_IPC_PATH_BYTES:
        raise EndpointError(endpoint, f"has a path of {size} bytes, beyond {MAX_IPC_PATH_BYTES}")
    return path


@contextlib.contextmanager
def exclusive_bind(endpoint: str, path: str) -> Generator[None]:
    """Bind inside: nothing lies at ``path``, and no other process of ours binds meanwhile.

    A dead process's socket is removed first. Raises :class:`EndpointInUseError` for a live
    one and :class:`EndpointError` for anything else at the path.
    """
    directory = Path(path).parent
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise EndpointError(endpoint, f"has no usable directory: {error.strerror}") from error
    try:
        status = os.fstat(fd)
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise EndpointError(endpoint, "must lie in a directory of mode 0700 of one's own")
        _lock(fd, endpoint)
        _clear(endpoint, path)
        if is_removed_with_others(path):
            _remove_dead(directory)
        yield
    finally:
        os.close(fd)


def remove_dead_endpoints(directory: Path) -> None:
    """Remove what killed aggregators left in ``directory``: sockets of our own, named like an
    aggregator's (``<pid>.in``, ``.out``, ``.ask``), at which nobody listens. All else stays.
    Never raises; a bind under such a name does the same."""
    with contextlib.suppress(OSError, EndpointError):
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _lock(fd, str(directory))
            _remove_dead(directory)
        finally:
            os.close(fd)


def _remove_dead(directory: Path) -> None:
    # Only under the directory's lock: a socket that is bound but does not listen yet looks dead.
    for path in directory.iterdir():
        if not is_removed_with_others(str(path)):
            continue
        with contextlib.suppress(OSError):
            if is_own_socket(str(path)) and listener_pid(str(path)) is None:
                path.unlink()


def is_removed_with_others(path: str) -> bool:
    """Whether it is named as what :func:`remove_dead_endpoints` removes."""
    return _ENDPOINT_NAME.fullmatch(Path(path).name) is not None


def is_own_socket(path: str) -> bool:
    """Whether a socket of this user lies there, whoever listens. Raises no ``OSError``."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISSOCK(status.st_mode) and status.st_uid == os.geteuid()


def listener_pid(path: str) -> int | None:
    """The pid of the process that listens at ``path`` (0 if the system does not say it);
    ``None`` if nobody listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            if error.errno in {errno.ECONNREFUSED, errno.ENOENT, errno.ECONNRESET}:
                return None
            raise
        return _peer_pid(probe)


class BoundFile(NamedTuple):
    """The file that a bind made; only this very file is ever removed."""

    path: Path
    device: int
    inode: int
    pid: int

    @classmethod
    def at(cls, path: str) -> BoundFile:
        """What lies at ``path`` now."""
        status = Path(path).lstat()
        return cls(Path(path), status.st_dev, status.st_ino, os.getpid())

    def remove(self) -> None:
        """Take it away, unless it is another one by now or a forked child asks. Never raises."""
        with contextlib.suppress(OSError):
            status = self.path.lstat()
            is_same = (status.st_dev, status.st_ino) == (self.device, self.inode)
            if is_same and stat.S_ISSOCK(status.st_mode) and self.pid == os.getpid():
                self.path.unlink()


def _lock(fd: int, endpoint: str) -> None:
    deadline = time.monotonic() + _LOCK_TIMEOUT_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise EndpointError(endpoint, "is being bound by another process") from error
            time.sleep(0.01)


def _clear(endpoint: str, path: str) -> None:
    try:
        status = Path(path).lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise EndpointError(endpoint, "is taken by something that is no socket")
    pid = listener_pid(path)
    if pid is not None:
        raise EndpointInUseError(endpoint, pid)
    Path(path).unlink()


def _peer_pid(connected: socket.socket) -> int:
    try:
        if sys.platform == "darwin":
            return struct.unpack("i", connected.getsockopt(0, 0x002, 4))[0]
        if hasattr(socket, "SO_PEERCRED"):
            return struct.unpack("3i", connected.getsockopt(socket.SOL_SOCKET, 17, 12))[0]
    except OSError:
        return 0
    return 0
