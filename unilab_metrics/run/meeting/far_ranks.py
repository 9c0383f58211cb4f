"""What the ranks of a node without the run directory have on it: their keys, and the way to
the aggregator for the other processes of each.

``<runtime directory>/far-<launch>/``, private to the user: ``rank-<n>.key`` is the pair that
rank n has made for itself, ``rank-<n>.json`` what it has found and been admitted to. Both go
when somebody comes by and the launch has no spool on this node any more.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from unilab_metrics.errors import ConnectionFileError, KeyFileError, StorageError
from unilab_metrics.storage.filesystem import private_directory, read_private, write_atomic
from unilab_metrics.storage.places import runtime_directory, spool_candidates
from unilab_metrics.transport import keys, rendezvous
from unilab_metrics.transport.allow_list import PUBLISH
from unilab_metrics.transport.rendezvous import ConnectionFile, bus_directory, rank_key
from unilab_metrics.transport.store_entries import (
    MAX_VALUE_BYTES,
    StoredBus,
    StoreEntryError,
    decode_bus,
    distant_bus,
    encode,
)

_PREFIX = "far-"


class FarRank:
    """One rank's part of it. Every method touches files of this node only."""

    def __init__(self, launch: str, rank: int) -> None:
        self._launch = launch
        self._rank = rank

    def own_key(self, server: str) -> str:
        """The public half of this rank's pair for the run with this server key, made if there
        is none. Raises ``OSError`` and ``StorageError``."""
        directory = private_directory(self._directory())
        _sweep(self._launch)
        path = rank_key(directory, self._rank)
        with suppress(KeyFileError):
            found = keys.read_client(path, PUBLISH)
            if found.server == server:
                return found.public
        return keys.new_client(path, PUBLISH, server)

    def leave(self, stored: StoredBus) -> None:
        """Tell this rank's other processes. Raises ``OSError`` and ``StorageError``."""
        path = private_directory(self._directory()) / f"rank-{self._rank}.json"
        write_atomic(path, encode(stored).encode())

    def find(self) -> ConnectionFile | None:
        """What the rank has left, if it has; never raises."""
        try:
            path = self._directory() / f"rank-{self._rank}.json"
            return self.way(decode_bus(read_private(path, MAX_VALUE_BYTES)))
        except (OSError, StorageError, StoreEntryError):
            return None

    def way(self, stored: StoredBus) -> ConnectionFile:
        """To an aggregator: by the run directory if it can be seen from here, else with the
        rank's own key."""
        return seen_here(stored) or distant_bus(stored, os.fspath(self._directory()), self._rank)

    def _directory(self) -> Path:
        return runtime_directory() / f"{_PREFIX}{self._launch}"


def seen_here(stored: StoredBus) -> ConnectionFile | None:
    """The run's connection file, if its directory is here too; never raises."""
    run_dir = Path(stored.run_dir)
    try:
        found = rendezvous.read(bus_directory(run_dir))
    except ConnectionFileError:
        return None
    is_it = found.journal == stored.journal
    return msgspec.structs.replace(found, run_dir=stored.run_dir) if is_it else None


def _sweep(own: str) -> None:
    """Remove the keys of launches that have no process and left no frame on this node."""
    roots = spool_candidates()
    with suppress(OSError, StorageError):
        for directory in runtime_directory().glob(f"{_PREFIX}*"):
            launch = directory.name.removeprefix(_PREFIX)
            if launch == own or any(_is_used(root / launch) for root in roots):
                continue
            with suppress(OSError):
                for path in directory.glob("rank-*"):
                    path.unlink(missing_ok=True)
                directory.rmdir()


def _is_used(spools: Path) -> bool:
    try:
        return any(spools.iterdir())
    except FileNotFoundError:
        return False
    except OSError:
        return True
