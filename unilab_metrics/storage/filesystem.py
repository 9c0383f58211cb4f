"""Where our files may lie, and whose they must be.

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
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from unilab_metrics.errors import SpoolError, StorageError, UnsafePathError, why
from unilab_metrics.storage.mounts import is_local_filesystem, keeps_modes

SPOOL_VARIABLE = "UNILAB_METRICS_SPOOL"
RUNTIME_VARIABLE = "UNILAB_METRICS_RUNTIME"
SHARED_MEMORY_BYTES = 64 * 1024 * 1024
"""All our spools of a node together hold less than this in shared memory."""
_LEAST_SHARED_BYTES = 16 * 1024 * 1024
"""A container with less shared memory has a better use for it."""
_LEAST_FREE_BYTES = 1024 * 1024
MAX_RUNTIME_PATH_BYTES = 60
"""Leaves room for a socket's name within the 104 to 108 bytes of ``sun_path``."""

_BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - used through a checked 0700 directory
_TEMPORARY = (Path("/var/tmp"), Path("/tmp"))  # noqa: S108 - as above


class SpaceStatus(Protocol):
    """What :func:`os.statvfs` returns, as far as it is used here."""

    @property
    def f_bavail(self) -> int:
        """Blocks free to ordinary users."""
        ...

    @property
    def f_frsize(self) -> int:
        """Bytes of a block."""
        ...


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


def runtime_directory() -> Path:
    """A short private directory for this user's sockets; made if missing.

    ``UNILAB_METRICS_RUNTIME``, else ``$XDG_RUNTIME_DIR/unilab-metrics``, else
    ``<tmp>/unilab-metrics-<uid>``, the first that is usable. The variable's is taken as
    :func:`spool_root` takes its own. logind's own ``/run/user/<uid>``
    is passed over: it is removed at the last logout, and trainings outlive logins.
    Raises :class:`UnsafePathError` or :class:`StorageError` when none is usable.
    """
    problem: Exception | None = None
    for candidate in _runtime_candidates():
        if len(os.fsencode(candidate)) > MAX_RUNTIME_PATH_BYTES:
            problem = problem or StorageError(candidate, "too long for socket paths")
            continue
        try:
            return private_directory(candidate)
        except (OSError, StorageError) as error:
            problem = error
            if _chosen(RUNTIME_VARIABLE) is not None:
                problem = StorageError(candidate, _refusal(RUNTIME_VARIABLE, error))
    if isinstance(problem, StorageError):
        raise problem
    raise StorageError(_user_directory(_TEMPORARY[-1]), f"no directory for sockets: {problem}")


def runtime_places() -> list[Path]:
    """Every directory in which :func:`runtime_directory` may have put sockets, existing or not."""
    return list(dict.fromkeys(_runtime_candidates()))


def _runtime_candidates() -> Iterator[Path]:
    chosen = _chosen(RUNTIME_VARIABLE)
    if chosen is not None:
        yield _private_part(chosen)
        return
    session = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    if session.is_absolute() and session.is_dir() and session.parent != Path("/run/user"):
        yield session / "unilab-metrics"
    yield _user_directory(Path(tempfile.gettempdir()))
    yield _user_directory(_TEMPORARY[-1])


def state_directory() -> Path:
    """:func:`state_place`, made if missing. Raises :class:`UnsafePathError` and ``OSError`` (a
    home that is not there or not writable)."""
    return private_directory(state_place())


def state_place() -> Path:
    """``$XDG_STATE_HOME/unilab-metrics`` or ``~/.local/state/unilab-metrics``. Raises
    ``FileNotFoundError`` for a user without a home."""
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not state.is_absolute():
        home = Path(os.path.expanduser("~"))
        if not home.is_absolute():
            raise FileNotFoundError("this user has no home directory")
        state = home / ".local" / "state"
    return state / "unilab-metrics"


def spool_root(
    *,
    shared_memory: Path = _SHARED_MEMORY,
    statvfs: Callable[[Path], SpaceStatus] = os.statvfs,
) -> Path:
    """The private directory in which this process may make its spool; made if missing.

    ``UNILAB_METRICS_SPOOL`` overrides; in a directory of ours that others may read,
    ``unilab-metrics-<uid>`` below it. Shared memory while all our spools of the node hold
    less than ``SHARED_MEMORY_BYTES`` and less than an eighth of what is free there, else a
    directory on a local disk, the first with room. Never a network file system.
    Raises :class:`SpoolError` when there is no such place.
    """
    chosen = _chosen(SPOOL_VARIABLE)
    if chosen is not None:
        try:
            return private_directory(_private_part(chosen))
        except (OSError, StorageError) as error:
            raise SpoolError(chosen, _refusal(SPOOL_VARIABLE, error)) from error
    reasons: list[str] = []
    cramped: list[Path] = []
    for root in spool_candidates(shared_memory):
        try:
            space = statvfs(root.parent)
            free = space.f_bavail * space.f_frsize
            if root.parent == shared_memory:
                if not fits_shared_memory(held_bytes(root), free):
                    reasons.append(f"{root}: shared memory is used up")
                    continue
            elif not is_local_filesystem(root.parent):
                reasons.append(f"{root}: not on a local disk")
                continue
            elif free < _LEAST_FREE_BYTES:
                cramped.append(root)
                continue
            return private_directory(root)
        except (OSError, StorageError) as error:
            reasons.append(str(error))
    for root in cramped:
        with contextlib.suppress(OSError, StorageError):
            return private_directory(root)
    raise SpoolError(shared_memory, "no place for a spool: " + "; ".join(reasons))


def spool_candidates(shared_memory: Path = _SHARED_MEMORY) -> list[Path]:
    """Every directory in which :func:`spool_root` may have put a spool, in its order.

    Processes of one run may lie in different ones; who adopts spools looks in all.
    """
    chosen = _chosen(SPOOL_VARIABLE)
    if chosen is not None:
        # It may have been opened to others, or closed, since.
        place, below = _private_part(chosen), _user_directory(chosen)
        return [place, below] if below.is_dir() and below != place else [place]
    parents = [shared_memory, _TEMPORARY[0], Path(tempfile.gettempdir()), _TEMPORARY[1]]
    return [_user_directory(parent) for parent in dict.fromkeys(parents) if parent.is_dir()]


def fits_shared_memory(held: int, free: int) -> bool:
    """Whether another spool may start in shared memory, given bytes held and free there."""
    return free >= _LEAST_SHARED_BYTES and held < min(SHARED_MEMORY_BYTES, free // 8)


def held_bytes(root: Path) -> int:
    """Bytes of all files below ``root``; what vanishes meanwhile counts as nothing."""
    total = 0
    pending = [os.fspath(root)]
    while pending:
        with contextlib.suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_size
    return total


def _chosen(variable: str) -> Path | None:
    """The user's own choice; absolute, because it is passed to helpers that work elsewhere."""
    value = os.environ.get(variable)
    return Path(os.path.abspath(value)) if value else None


def _private_part(chosen: Path) -> Path:
    """``chosen``, or a directory of our own in it where others may look into it. One that others
    may change is left as it is, to be refused."""
    try:
        status = chosen.lstat()
    except OSError:
        return chosen
    is_open = stat.S_ISDIR(status.st_mode) and status.st_mode & 0o077 and keeps_modes(chosen)
    is_changed_by_others = status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX
    if not is_open or is_changed_by_others or status.st_uid != os.geteuid():
        return chosen
    return _user_directory(chosen)


def _refusal(variable: str, error: OSError | StorageError) -> str:
    """Why a directory that the user chose is not taken, and what to do."""
    reason = error.reason if isinstance(error, StorageError) else why(error)
    fix = "name a directory of your own, of mode 0700"
    return f"{variable} is not usable: {reason}; {fix}"


def _user_directory(parent: Path) -> Path:
    return parent / f"unilab-metrics-{os.getuid()}"
