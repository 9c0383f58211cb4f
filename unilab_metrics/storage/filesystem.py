"""Whose our files must be, and writing and reading them so.

Everything private is a directory of mode 0700 that we own, holding files of mode 0600; a
symlink, a foreign owner or another mode is refused. Works on Linux and macOS; where the
system cannot say something, the answer here says how it falls back.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import sys
from collections.abc import Generator
from pathlib import Path

from unilab_metrics.errors import StorageError, UnsafePathError
from unilab_metrics.storage.mounts import keeps_modes

_BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Names this boot of this node: equal ids mean comparable monotonic clocks.

    Linux's random boot id, macOS's boot session; elsewhere the host name, which does not
    tell two boots apart.
    """
    with contextlib.suppress(OSError):
        return _BOOT_ID_FILE.read_text(encoding="ascii").strip()
    if sys.platform == "darwin":
        session = _darwin_boot_session()
        if session:
            return session
    return f"host-{os.uname().nodename}"


def _darwin_boot_session() -> str:
    import ctypes

    size = ctypes.c_size_t(64)
    buffer = ctypes.create_string_buffer(size.value)
    try:
        failed = ctypes.CDLL(None).sysctlbyname(
            b"kern.bootsessionuuid", buffer, ctypes.byref(size), None, 0
        )
    except (OSError, AttributeError):
        return ""
    return "" if failed else buffer.value.decode("ascii", "replace")


def check_private(path: Path, status: os.stat_result, *, directory: bool) -> None:
    """Raises :class:`UnsafePathError` unless it is ours alone and of that kind.

    ``status`` comes from ``lstat`` or ``fstat``, so that a symlink shows as one. Where the file
    system has one mode for all files, whoever mounted it has decided who may read them.
    """
    kind_matches = stat.S_ISDIR if directory else stat.S_ISREG
    if stat.S_ISLNK(status.st_mode):
        raise UnsafePathError(path, "is a symlink")
    if not kind_matches(status.st_mode):
        raise UnsafePathError(path, "is no directory" if directory else "is no regular file")
    if status.st_uid != os.geteuid():
        raise UnsafePathError(path, f"belongs to uid {status.st_uid}, not to {os.geteuid()}")
    if status.st_mode & 0o077 and keeps_modes(path if directory else path.parent):
        raise UnsafePathError(path, f"mode {status.st_mode & 0o777:04o} lets others in")


def private_directory(path: Path) -> Path:
    """Make ``path`` (mode 0700; missing parents follow the umask) or check the one there.

    Raises :class:`UnsafePathError` for a symlink, a foreign owner or a wider mode, and
    ``OSError``. Never changes a directory that it did not make.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir(0o700)
    except FileExistsError:
        pass
    else:
        with contextlib.suppress(PermissionError):
            path.chmod(0o700)
    check_private(path, path.lstat(), directory=True)
    return path


def read_private(path: Path, max_bytes: int) -> bytes:
    """The bytes of a small private file. Raises :class:`UnsafePathError`,
    :class:`StorageError` beyond ``max_bytes``, and ``OSError``."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        if path.is_symlink():
            raise UnsafePathError(path, "is a symlink") from error
        raise
    try:
        check_private(path, os.fstat(fd), directory=False)
        data = os.pread(fd, max_bytes + 1, 0)
    finally:
        os.close(fd)
    if len(data) > max_bytes:
        raise StorageError(path, f"more than {max_bytes} bytes")
    return data


def write_atomic(path: Path, data: bytes, mode: int = 0o600, *, sync: bool = False) -> None:
    """Replace ``path`` as a whole; a reader sees the old or the new bytes, never a mixture.

    ``mode`` holds whatever the umask is; ``sync`` waits for the disk. Raises ``OSError``, and
    then leaves the old file and no temporary one.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with naming(path):
        fd = os.open(temporary, flags, 0o600)
        try:
            try:
                with contextlib.suppress(PermissionError):
                    os.fchmod(fd, mode)
                remaining = memoryview(data)
                while remaining:
                    remaining = remaining[os.write(fd, remaining) :]
                if sync:
                    os.fsync(fd)
            finally:
                os.close(fd)
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise


@contextlib.contextmanager
def naming(path: Path) -> Generator[None, None, None]:
    """An ``OSError`` names this path: not a temporary one, and not none, as those of descriptors
    do."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = os.fspath(path), None
        raise
