"""Whether anybody is still at work on a run: what a viewer without an aggregator asks."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import msgspec

from unilab_metrics.errors import ConnectionFileError, StorageError
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


class _Launches(msgspec.Struct, frozen=True):
    """What is of use here of ``bus/settings.json``."""

    launch: str = ""
    spools: tuple[str, ...] = ()


_decoder = msgspec.json.Decoder(_Launches)


def find_abandoned(run_dir: Path) -> tuple[str, ...] | None:
    """Who is gone, by name, if no process of this machine is at work on the run; else ``None``,
    also where that cannot be told: a run of another machine, or files that are not ours.

    Of a run that has ended it says the same; the caller knows the history. Never raises.
    """
    try:
        if settled_pid(aggregator_lease(run_dir)) is not None:
            return None
        settings = read_private(bus_directory(run_dir) / _SETTINGS_FILE, _MAX_BYTES)
        places = spool_places(_decoder.decode(settings), [])
        gone: list[Identity] = []
        for directory in spools_in(places):
            # What is being made has no lease yet.
            if not is_abandoned(directory):
                return None
            identity = SpoolReader(directory).identity
            if identity is not None:
                if runs_here(identity):
                    return None
                gone.append(identity)
    except (OSError, ValueError, StorageError, msgspec.MsgspecError, RecursionError):
        return None
    connection = _connection(run_dir)
    if not _was_here(connection, gone) and not _has_ended(run_dir):
        return None
    names = [f"{one.key.place} (pid {one.pid})" for one in sorted(gone, key=lambda one: one.key)]
    if connection is not None:
        names.insert(0, f"the aggregator (pid {connection.pid})")
    return tuple(names)


def _connection(run_dir: Path) -> ConnectionFile | None:
    try:
        return read(bus_directory(run_dir))
    except ConnectionFileError:
        return None


def _has_ended(run_dir: Path) -> bool:
    """Whether an aggregator has come and gone: a live one, on whatever machine, has its connection
    file there. The end in the history may be damaged."""
    bus_dir = bus_directory(run_dir)
    is_live = os.path.lexists(bus_dir / CONNECTION_FILE)
    return not is_live and bool(list_segments(bus_dir, "wal") or list_segments(bus_dir, "history"))


def _was_here(connection: ConnectionFile | None, gone: list[Identity]) -> bool:
    """Whether the run's first node is this machine. It may have been started again since."""
    if connection is None:
        return bool(gone)
    is_same_host = connection.host == socket.gethostname()
    if connection.boot_id == boot_id():
        # A container of this machine may have spools of its own.
        return bool(gone) or is_same_host
    return bool(gone) and is_same_host
