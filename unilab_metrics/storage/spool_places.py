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
    """A process whose spool's lease is held. ``identity``: ``None`` if it is not readable.
    ``pid``: as this process sees it, 0 if it does not; the identity has the process's own."""

    identity: Identity | None
    pid: int

    @property
    def key(self) -> SourceKey | None:
        """Its place, if it is known."""
        return self.identity and self.identity.key

    def is_that_of(self, identity: Identity) -> bool:
        """Whether it is the process that has said this of itself."""
        if self.identity is None:
            return self.pid == identity.pid
        return self.identity.incarnation == identity.incarnation

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
            found[path] = LiveProcess(identity, pid)
    this_boot = boot_id()
    for identity in identities:
        path = Path(identity.lease_path)
        if identity.boot_id == this_boot and path not in found and path.is_absolute():
            with contextlib.suppress(OSError, ValueError):
                pid = lease.settled_pid(path)
                if pid is not None:
                    found[path] = LiveProcess(identity, pid)
    return list(found.values())


def processes_without_lease(places: Sequence[Path]) -> list[LiveProcess]:
    """Processes that run though the leases of their spools are free: they have closed their
    publisher, or their descriptors. Nobody takes such a spool in."""
    found: list[LiveProcess] = []
    for directory in spools_in(places):
        identity = _identity(directory)
        if identity is not None and lease.is_free(directory / LEASE_NAME) and runs_here(identity):
            found.append(LiveProcess(identity, identity.pid))
    return found


def nameless_spools(places: Sequence[Path]) -> dict[Path, str]:
    """Spools of dead processes that hold something and do not say whose they are, and why nobody
    takes them in. Raises ``OSError``."""
    found: dict[Path, str] = {}
    for directory in spools_in(places):
        size_bytes = sum(path.stat().st_size for path in list_segments(directory, SPOOL_PREFIX))
        if not size_bytes or not lease.is_free(directory / LEASE_NAME):
            continue
        reader = _reader(directory)
        if reader is None or (reader.identity is None and not reader.refusal):
            found[directory] = f"{size_bytes:,} bytes that do not say whose they are: damaged"
        elif reader.identity is None:
            found[directory] = (
                f"{size_bytes:,} bytes of a process that this version refuses ({reader.refusal}): "
                "they are not damaged, another version may take them in"
            )
    return found


def _identity(directory: Path) -> Identity | None:
    reader = _reader(directory)
    return None if reader is None else reader.identity


def _reader(directory: Path) -> SpoolReader | None:
    try:
        return SpoolReader(directory)
    except OSError:
        return None
