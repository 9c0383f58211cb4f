"""Where the spools of a run may lie on this node, and which of its processes live here."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from unilab_metrics.errors import StorageError
from unilab_metrics.storage import lease
from unilab_metrics.storage.filesystem import boot_id, check_private
from unilab_metrics.storage.orphans import runs_here
from unilab_metrics.storage.places import spool_candidates
from unilab_metrics.storage.segments import list_segments
from unilab_metrics.storage.spool_reader import LEASE_NAME, SPOOL_PREFIX, SpoolReader
from unilab_schema.identity import Identity, SourceKey


class Launches(Protocol):
    """What a run's settings say of its spools: the newest launch, and the directories of all."""

    @property
    def launch(self) -> str:
        """Key of the newest attempt's launch."""
        ...

    @property
    def spools(self) -> tuple[str, ...]:
        """Directories in which processes of this node may have spools."""
        ...


class LiveProcess(NamedTuple):
    """A process whose spool's lease is held. ``key``: ``None`` if its identity is not readable;
    ``pid`` is 0 in another pid namespace."""

    key: SourceKey | None
    pid: int

    def __str__(self) -> str:
        what = "a process" if self.key is None else self.key.place
        return f"{what} (pid {self.pid})"


def spool_places(settings: Launches, identities: Iterable[Identity]) -> list[Path]:
    """The launch directories in which the run's spools may lie, those that exist.

    Those that the settings name, the same launches below every place where this user's spools
    may lie now, and where the sources said that theirs are. That last word comes from another
    process: it counts only for a private directory of ours with a launch's name.
    """
    named = [Path(spool) for spool in settings.spools if Path(spool).is_absolute()]
    launches = dict.fromkeys([path.name for path in named])
    if settings.launch:
        launches[settings.launch] = None
    places = dict.fromkeys(named)
    for root in spool_candidates():
        places |= dict.fromkeys(root / launch for launch in launches)
    for identity in identities:
        place = Path(identity.spool_path).parent
        if place not in places and ".." not in place.parts and _is_private(place):
            places[place] = None
    return [place for place in places if place.is_dir() and not place.is_symlink()]


def _is_private(place: Path) -> bool:
    if not place.is_absolute() or len(place.parts) < 3:
        return False
    try:
        for path in (place, place.parent):
            check_private(path, path.lstat(), directory=True)
    except (OSError, StorageError):
        return False
    return True


def spools_in(places: Sequence[Path]) -> Iterator[Path]:
    """Every spool directory in these places; what cannot be listed is left out."""
    for place in places:
        with contextlib.suppress(OSError):
            for name in sorted(os.listdir(place)):
                directory = place / name
                if directory.is_dir() and not directory.is_symlink():
                    yield directory


def live_processes(places: Sequence[Path], identities: Iterable[Identity]) -> list[LiveProcess]:
    """Processes of the run that hold a lease on this node, after a moment for those that are
    ending. Raises ``OSError`` for leases that may not be asked."""
    found: dict[Path, LiveProcess] = {}
    for directory in spools_in(places):
        path = directory / LEASE_NAME
        pid = lease.settled_pid(path)
        if pid is not None:
            identity = _identity(directory)
            found[path] = LiveProcess(identity and identity.key, pid)
    this_boot = boot_id()
    for identity in identities:
        path = Path(identity.lease_path)
        if identity.boot_id == this_boot and path not in found and path.is_absolute():
            with contextlib.suppress(OSError, ValueError):
                pid = lease.settled_pid(path)
                if pid is not None:
                    found[path] = LiveProcess(identity.key, pid)
    return list(found.values())


def processes_without_lease(places: Sequence[Path]) -> list[LiveProcess]:
    """Processes that run though the leases of their spools are free: they have closed their
    publisher, or their descriptors. Nobody takes such a spool in."""
    found: list[LiveProcess] = []
    for directory in spools_in(places):
        identity = _identity(directory)
        if identity is not None and lease.is_free(directory / LEASE_NAME) and runs_here(identity):
            found.append(LiveProcess(identity.key, identity.pid))
    return found


def nameless_spools(places: Sequence[Path]) -> dict[Path, str]:
    """Spools of dead processes that hold something and do not say whose they are, and why nobody
    takes them in. Raises ``OSError``."""
    found: dict[Path, str] = {}
    for directory in spools_in(places):
        size_bytes = sum(path.stat().st_size for path in list_segments(directory, SPOOL_PREFIX))
        if size_bytes and lease.is_free(directory / LEASE_NAME) and _identity(directory) is None:
            found[directory] = f"{size_bytes:,} bytes that do not say whose they are: damaged"
    return found


def _identity(directory: Path) -> Identity | None:
    try:
        return SpoolReader(directory).identity
    except OSError:
        return None
