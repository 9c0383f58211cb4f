"""Where our files may lie: spools, sockets, and what outlives a run.

Each place is a private directory of this user; the first usable candidate is taken. Works on
Linux and macOS; where the system cannot say something, the answer here says how it falls back.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from unilab_metrics.errors import SpoolError, StorageError, why
from unilab_metrics.storage.filesystem import private_directory
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
