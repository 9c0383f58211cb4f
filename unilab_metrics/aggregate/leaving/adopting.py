"""Reading what dead processes have left in their spools, in steps between which the loop goes on.

A spool may hold hours. Each step takes some time at most, and what it brought is sealed before the
next one, so that subscribers are answered and only so much is held in memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from unilab_metrics.aggregate.core import Core
from unilab_metrics.aggregate.folding.deciding import MAX_HELD_BYTES
from unilab_metrics.aggregate.folding.pacing import MAX_AHEAD
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.receiving.accepting import accept
from unilab_metrics.storage.orphans import remove_spool
from unilab_metrics.storage.spool_reader import SpoolBatch, SpoolReader

STEP_NS = 50_000_000
_READ_BYTES = 64 * 1024


class _Begun(NamedTuple):
    """A spool that a step has left. ``held``: read, and not taken yet."""

    held: list[SpoolBatch]
    rest: Iterator[SpoolBatch]


class Adopting:
    """Owned by the aggregator's main thread."""

    def __init__(self, core: Core, is_dead: Callable[[SourceState], bool]) -> None:
        self._core = core
        self._is_dead = is_dead
        self._until_mono_ns: int | None = None
        self._adopted: dict[Path, SourceState] = {}
        self._begun: dict[int, _Begun] = {}
        self.is_unfinished = False
        """Whether the newest step has left something for the next one."""

    def begin(self, step_ns: int) -> None:
        """From here on until :meth:`end`, reading stops after that time; 0 for never."""
        self.is_unfinished = False
        self._until_mono_ns = time.monotonic_ns() + step_ns if step_ns else None

    def end(self) -> None:
        """From here on spools are read to their ends."""
        self._until_mono_ns = None

    def adopt(self, source: SourceState, directory: Path) -> bool:
        """Take what lies beyond the source's cursor. False if something is left, for another call:
        the disk has no room for it yet, or the step is over."""
        begun = self._begun.pop(source.index, None)
        if begun is None:
            begun = _Begun([], SpoolReader(directory).batches(source.cursor, _READ_BYTES))
        for number, batch in enumerate(chain(*begun)):
            if not self._core.makes_room():
                return False
            # Whatever the rest of the step took, each call brings something.
            if self._is_ahead(source) or (number and self._is_over()):
                self._begun[source.index] = begun._replace(held=[batch])
                self.is_unfinished = True
                return False
            self.take(source, batch.records)
        self._adopted[directory] = source
        return True

    def take(self, source: SourceState, records: bytes) -> None:
        """Fold those of the records that are new."""
        accepted = accept(source, records, 0)
        if accepted.entry is not None:
            self._core.fold(accepted.entry, accepted.records)

    def remove_durable(self) -> None:
        """Remove the spools of which everything is on the disk."""
        for directory, source in list(self._adopted.items()):
            if self._core.durable_cursor(source.index) >= source.cursor:
                del self._adopted[directory]
                if not is_unreadable(directory):
                    remove_spool(directory)

    def close(self) -> None:
        """Hold no spool's bytes any more."""
        self._begun.clear()

    def _is_over(self) -> bool:
        until = self._until_mono_ns
        return until is not None and time.monotonic_ns() >= until

    def _is_ahead(self, source: SourceState) -> bool:
        """Whether the spool of another dead rank, which is further behind, must be read first:
        iterations of this one would be sealed without it."""
        if self._until_mono_ns is None:
            return False
        windows = self._core.state.data.windows
        if len(windows.open) < MAX_AHEAD and windows.held_bytes < MAX_HELD_BYTES // 2:
            return False
        through = windows.finished_through
        reached = through.get(source.index, -1)
        return any(
            through.get(other.index, -1) < reached and self._is_dead(other)
            for other in self._core.state.live_learners()
        )


def is_unreadable(directory: Path) -> bool:
    """Whether bytes lie there and do not even say whose they are: what was in them is not known,
    and whoever looks for it may still find it."""
    reader = SpoolReader(directory)
    return reader.identity is None and reader.size_bytes > 0
