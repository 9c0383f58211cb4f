"""Live processes of ours on this node, for an aggregator on another one.

On its own node the aggregator sees the spools of who publishes already and has not said Hello yet.
Of other nodes whoever ends there tells it, so that the end waits for them too.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from unilab_metrics.storage import lease
from unilab_metrics.storage.places import spool_candidates
from unilab_metrics.storage.spool_reader import LEASE_NAME, SpoolReader
from unilab_schema.control import Neighbour

INTERVAL_NS = 200_000_000
_MOST = 64


class Neighbours:
    """Owned by the shipper's thread; ``look`` never waits and never raises."""

    def __init__(self, own: Path) -> None:
        """``own``: our spool, beside which theirs lie."""
        self._own = own
        self._known: dict[Path, Neighbour] = {}
        self._look_at_ns = 0
        self._found: tuple[Neighbour, ...] = ()
        self.are_told = False
        """Whether what a look has found was asked for."""

    def tell(self) -> tuple[Neighbour, ...]:
        """As of the last look; empty before the first."""
        self.are_told = self._look_at_ns > 0
        return self._found

    def look(self, now: int) -> None:
        """Who is there, if it is time to look again. ``now``: monotonic."""
        if now < self._look_at_ns:
            return
        self._look_at_ns = now + INTERVAL_NS
        launch = self._own.parent
        roots = dict.fromkeys([launch, *(root / launch.name for root in spool_candidates())])
        found: list[Neighbour] = []
        for root in roots:
            with suppress(OSError):
                found += [n for d in sorted(root.iterdir()) if (n := self._at(d)) is not None]
        self._found = tuple(found[:_MOST])

    def _at(self, directory: Path) -> Neighbour | None:
        if directory == self._own or directory.is_symlink():
            return None
        path = directory / LEASE_NAME
        with suppress(OSError):
            if not path.exists() or lease.is_free(path):
                return None
            if directory not in self._known:
                identity = SpoolReader(directory).identity
                if identity is None or Path(identity.spool_path) != directory:
                    return None
                made = Neighbour(identity.incarnation, identity.key, identity.pid)
                self._known[directory] = made
            return self._known[directory]
        return None
