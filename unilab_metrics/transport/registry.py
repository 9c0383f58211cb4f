"""The user's live runs, so that ``attach`` and ``ls`` find them without a path.

One small file per run directory in the user's state directory. It only says where to look:
a run is live while its aggregator's lease is held. Registering must never hurt a run, so a
state directory that cannot be used means "not registered", not an error.
"""

from __future__ import annotations

import hashlib
import os
import socket
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from unilab_metrics.errors import StorageError
from unilab_metrics.storage.filesystem import boot_id, private_directory, read_private, write_atomic
from unilab_metrics.storage.lease import settled_pid
from unilab_metrics.storage.path_text import path_of, path_text
from unilab_metrics.storage.places import state_directory, state_place
from unilab_metrics.storage.process_table import is_running, stat_fields
from unilab_metrics.transport.rendezvous import aggregator_lease

REGISTRY_VERSION = 1
START_GRACE_S = 60.0
"""How long a registered run may be without a lease before its entry is dropped: it is listed
when it is opened, and the aggregator's lease appears a moment later."""
STARTING_S = 10.0
"""How long it counts as starting meanwhile."""
_MAX_BYTES = 16 * 1024
_SUFFIX = ".json"
_FOLDER = "runs"


class LiveRun(NamedTuple):
    """A run whose aggregator lives. ``pid``: the aggregator (0 if in another pid namespace, or
    while the run is only starting). ``opener_lives``: false for one that is starting and whose
    opener, or first aggregator, has ended."""

    run_dir: Path
    pid: int
    started_unix_ns: int
    opener_lives: bool = True


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    version: int = REGISTRY_VERSION
    run_dir: str
    pid: int
    started_unix_ns: int
    boot_id: str
    host: str = ""


_decoder = msgspec.json.Decoder(_Entry)


def register(run_dir: Path, pid: int) -> bool:
    """List the run; False when the state directory cannot be used."""
    entry = _Entry(
        run_dir=path_text(run_dir.absolute()),
        pid=pid,
        started_unix_ns=time.time_ns(),
        boot_id=boot_id(),
        host=socket.gethostname(),
    )
    try:
        write_atomic(_entry_path(_directory(), run_dir), msgspec.json.encode(entry))
    except (OSError, StorageError):
        return False
    return True


def unregister(run_dir: Path) -> None:
    """Take the run off the list; one that is not there is fine."""
    try:
        _entry_path(_directory(), run_dir).unlink(missing_ok=True)
    except (OSError, StorageError):
        return


def live_runs() -> list[LiveRun]:
    """The user's live runs of this machine, the newest first; entries of dead ones are removed.

    A home that several machines share lists the runs of all; those of another machine or boot
    are left alone, because their locks cannot be seen reliably from here, and those of another
    container of this machine whose run directory is not there.
    """
    return _listed()[0]


def starting_runs() -> list[LiveRun]:
    """Runs that were opened moments ago and have no aggregator yet, the newest first."""
    return _listed()[1]


def look_for_live_run() -> LiveRun | None:
    """As :func:`newest_live_run`, but nothing is made, removed or changed."""
    return next(iter(_listed(keep=True)[0]), None)


def _listed(*, keep: bool = False) -> tuple[list[LiveRun], list[LiveRun]]:
    try:
        directory = state_place() / _FOLDER if keep else _directory()
        entries = list(directory.iterdir())
    except (OSError, StorageError):
        return [], []
    this_boot = boot_id()
    live: list[LiveRun] = []
    starting: list[LiveRun] = []
    for path in entries:
        entry = _read(path) if path.suffix == _SUFFIX else None
        if entry is None or entry.boot_id != this_boot:
            continue
        run_dir, age_s = path_of(entry.run_dir), (time.time_ns() - entry.started_unix_ns) / 1e9
        pid = _aggregator(run_dir)
        if pid is not None:
            live.append(LiveRun(run_dir, pid, entry.started_unix_ns))
        elif age_s > START_GRACE_S:
            if not keep and (entry.host in {"", socket.gethostname()} or run_dir.is_dir()):
                _drop(path)
        elif age_s < STARTING_S and run_dir.is_dir():
            opener_lives = _lives(entry.pid, age_s)
            starting.append(LiveRun(run_dir, 0, entry.started_unix_ns, opener_lives))
    return _newest_first(live), _newest_first(starting)


def _newest_first(runs: list[LiveRun]) -> list[LiveRun]:
    return sorted(runs, key=lambda run: run.started_unix_ns, reverse=True)


def newest_live_run() -> LiveRun | None:
    """The live run that started last, if there is one."""
    return next(iter(live_runs()), None)


def _aggregator(run_dir: Path) -> int | None:
    try:
        return settled_pid(aggregator_lease(run_dir))
    except OSError:
        return None


def _lives(pid: int, age_s: float) -> bool:
    """Whether the process that listed the run has not ended, where the system tells of
    processes."""
    mono_ns = time.monotonic_ns() - int(age_s * 1e9)
    return not stat_fields(os.getpid()) or is_running(pid, mono_ns)


def _read(path: Path) -> _Entry | None:
    try:
        entry = _decoder.decode(read_private(path, _MAX_BYTES))
    except (OSError, StorageError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return entry if entry.version == REGISTRY_VERSION else None


def _drop(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return


def _directory() -> Path:
    return private_directory(state_directory() / _FOLDER)


def _entry_path(directory: Path, run_dir: Path) -> Path:
    name = hashlib.sha256(os.fsencode(run_dir.absolute())).hexdigest()[:32]
    return directory / f"{name}{_SUFFIX}"
