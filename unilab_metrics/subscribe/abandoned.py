"""Whether anybody is still at work on a run: what a viewer without an aggregator asks."""

from __future__ import annotations

import os
import shlex
import socket
import stat
from pathlib import Path

import msgspec

from unilab_metrics.errors import (
    ConnectionFileError,
    StorageError,
    UnreadSettingsError,
    UnsafePathError,
)
from unilab_metrics.storage.filesystem import boot_id, read_private
from unilab_metrics.storage.lease import settled_pid
from unilab_metrics.storage.orphans import is_abandoned, runs_here
from unilab_metrics.storage.segments import list_segments
from unilab_metrics.storage.spool_places import spool_places, spools_in
from unilab_metrics.storage.spool_reader import SpoolReader
from unilab_metrics.transport.rendezvous import (
    CONNECTION_FILE,
    ConnectionFile,
    aggregator_lease,
    bus_directory,
    read,
)
from unilab_schema.identity import Identity

_SETTINGS_FILE = "settings.json"
_MAX_BYTES = 1024 * 1024
_UNTOLD = "without it nobody can tell who is at work on the run, which says nothing"


class Launches(msgspec.Struct, frozen=True):
    """What is of use here of ``bus/settings.json``."""

    launch: str = ""
    spools: tuple[str, ...] = ()


_decoder = msgspec.json.Decoder(Launches)


def find_abandoned(run_dir: Path) -> tuple[str, ...] | None:
    """Who is gone, by name, if no process of this machine is at work on the run; else ``None``,
    also where that cannot be told: a run of another machine, or files that are not ours.

    Of a run that has ended it says the same; the caller knows the history. Never raises.
    """
    try:
        return look_for_abandoned(run_dir)
    except UnreadSettingsError:
        return None


def look_for_abandoned(run_dir: Path) -> tuple[str, ...] | None:
    """As :func:`find_abandoned`, but raises :class:`UnreadSettingsError` where unread settings are
    all that keeps it from being told. A training may be at work, and start an aggregator again."""
    connection = _connection(run_dir)
    try:
        if settled_pid(aggregator_lease(run_dir)) is not None:
            return None
        gone: list[Identity] = []
        for directory in spools_of(run_dir):
            # What is being made has no lease yet.
            if not is_abandoned(directory):
                return None
            identity = SpoolReader(directory).identity
            if identity is not None:
                if runs_here(identity):
                    return None
                gone.append(identity)
    except UnreadSettingsError:
        if connection is None or _is_of_here(connection):
            raise
        return None
    except (OSError, ValueError, StorageError, msgspec.MsgspecError, RecursionError):
        return None
    was_here = was_on(connection, gone, boot_id=boot_id(), host=socket.gethostname())
    return names(connection, gone) if was_here or _has_ended(run_dir) else None


def names(connection: ConnectionFile | None, gone: list[Identity]) -> tuple[str, ...]:
    """Of those who are gone: the aggregator that has left its connection file, and others."""
    found = [f"{one.key.place} (pid {one.pid})" for one in sorted(gone, key=lambda one: one.key)]
    if connection is not None:
        found.insert(0, f"the aggregator (pid {connection.pid})")
    return tuple(found)


def was_on(
    connection: ConnectionFile | None, gone: list[Identity], *, boot_id: str, host: str
) -> bool:
    """Whether the run's first node is the machine with this ``boot_id`` and ``host``, on which those
    ``gone`` have left spools. It may have been started again since."""
    if connection is None:
        return bool(gone)
    is_same_host = connection.host == host
    if connection.boot_id == boot_id:
        # A container of this machine may have spools of its own.
        return bool(gone) or is_same_host
    return bool(gone) and is_same_host


def decode_launches(settings: bytes) -> Launches:
    """What ``bus/settings.json`` says of spools. Raises msgspec's errors."""
    return _decoder.decode(settings)


def spools_of(run_dir: Path) -> list[Path]:
    """The spools of a run that this machine has. Raises ``OSError`` and ``StorageError`` if the
    run's settings cannot be read, :class:`UnreadSettingsError` if they are damaged, or ours and open
    to others."""
    path = bus_directory(run_dir) / _SETTINGS_FILE
    try:
        launches = decode_launches(read_private(path, _MAX_BYTES))
    except UnsafePathError as error:
        status = path.lstat()
        if status.st_uid != os.geteuid() or not stat.S_ISREG(status.st_mode):
            raise
        advice = f"`chmod 600 {shlex.quote(os.fspath(path))}` if nobody has touched it"
        raise UnreadSettingsError(path, f"{error.reason}; {_UNTOLD}; {advice}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        advice = (
            f"`unilab-metrics recover {shlex.quote(os.fspath(run_dir))}` completes it if nobody is"
        )
        raise UnreadSettingsError(path, f"damaged: {error}; {_UNTOLD}; {advice}") from error
    return list(spools_in(spool_places(launches, [])))


def _connection(run_dir: Path) -> ConnectionFile | None:
    try:
        return read(bus_directory(run_dir))
    except ConnectionFileError:
        return None


def _is_of_here(connection: ConnectionFile) -> bool:
    """Whether the machine may have been started again since."""
    return connection.boot_id == boot_id() or connection.host == socket.gethostname()


def _has_ended(run_dir: Path) -> bool:
    """Whether an aggregator has come and gone: a live one, on whatever machine, has its connection
    file there. The end in the history may be damaged."""
    bus_dir = bus_directory(run_dir)
    is_live = os.path.lexists(bus_dir / CONNECTION_FILE)
    return not is_live and bool(list_segments(bus_dir, "wal") or list_segments(bus_dir, "history"))
