"""State and journal together: fold what came, commit it, know what is durable."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from unilab_metrics import crash_points
from unilab_metrics.aggregate.blocks import BlockStore
from unilab_metrics.aggregate.deciding import Decider
from unilab_metrics.aggregate.entries import Entry, Notice
from unilab_metrics.aggregate.journal import Journal
from unilab_metrics.aggregate.process_log import say
from unilab_metrics.aggregate.state import AggregatorState
from unilab_metrics.errors import StorageFullError
from unilab_metrics.storage.records import Record
from unilab_schema.control import Epoch

RETRY_NS = 1_000_000_000
SYNC_INTERVAL_NS = 50_000_000
MAX_UNCOMMITTED_BYTES = 64 * 1024 * 1024
"""While the disk is full, input is left in the spools from here on."""


class Mark(NamedTuple):
    """What one sync makes durable: the update sequence, and each source's cursor."""

    update: int
    cursors: tuple[int, ...]


class Core:
    """Owned by the aggregator's main thread."""

    def __init__(self, journal: Journal, blocks: BlockStore, straggler_deadline_s: float) -> None:
        self.journal = journal
        self.blocks = blocks
        self.state: AggregatorState = journal.state
        self.decider = Decider(self.state, straggler_deadline_s)
        self._retry_mono_ns = 0
        self._synced_mono_ns = 0
        # What lay in the files when we started is synced with the first sync.
        self.durable_update = 0
        self._durable_cursors: tuple[int, ...] = ()
        self.full_reason = ""

    @property
    def epoch(self) -> Epoch:
        """Names this life of the aggregator."""
        return self.journal.epoch

    def fold(self, entry: Entry, records: list[Record] | None = None) -> None:
        """Journal an entry and take it into the state."""
        self.journal.append(entry)
        published = self.state.handle(entry, records)
        self.journal.publish(published)
        self.blocks.add(published)

    def notice(self, kind: str, text: str) -> None:
        """An event of the aggregator's own."""
        self.fold(Notice(kind, text, time.monotonic_ns(), time.time_ns()))

    def seal_due(self, awaited_ranks: Callable[[], frozenset[int]]) -> None:
        """Seal every iteration whose time has come. ``awaited_ranks``: see ``due``."""
        if not (self.state.data.windows.open or self.state.data.windows.late):
            return
        now = time.monotonic_ns()
        awaited = awaited_ranks()
        while (seal := self.decider.due(now, time.time_ns(), awaited)) is not None:
            self.fold(seal)

    def seal_all(self) -> None:
        """Seal what is open; nobody can add to it any more."""
        while (seal := self.decider.flush(time.monotonic_ns(), time.time_ns())) is not None:
            self.fold(seal)

    @property
    def accepts_input(self) -> bool:
        """False while the disk is full and too much waits for it."""
        return not self.full_reason or self.journal.uncommitted_bytes < MAX_UNCOMMITTED_BYTES

    def commit(self) -> bool:
        """Write what was folded; true when nothing waits. On a full disk: tried each second."""
        if not self.journal.has_uncommitted:
            return True
        now = time.monotonic_ns()
        if self.full_reason and now < self._retry_mono_ns:
            return False
        try:
            self.journal.commit()
        except (OSError, StorageFullError) as error:
            if not self.full_reason:
                say(f"journal: {error}; frames wait in the spools")
            self.full_reason = str(error)
            self._retry_mono_ns = now + RETRY_NS
            return False
        if crash_points.armed:
            crash_points.reach("aggregator.committed")
        self.blocks.write()
        if self.full_reason:
            say("journal: writing resumes")
            self.full_reason = ""
        return True

    def sync(self) -> None:
        """Take the result of a sync that has finished, and start one if it is due."""
        try:
            finished = self.journal.finished_sync()
        except OSError as error:
            # The kernel reports a lost write once; what was written is in question, so nothing
            # becomes durable until a later sync succeeds.
            say(f"journal: sync failed: {error}")
            finished = None
        if isinstance(finished, Mark):
            if crash_points.armed:
                crash_points.reach("aggregator.synced")
            self.durable_update = finished.update
            self._durable_cursors = finished.cursors
        now = time.monotonic_ns()
        if now - self._synced_mono_ns >= SYNC_INTERVAL_NS and not self.journal.has_uncommitted:
            cursors = tuple(source.cursor for source in self.state.data.sources)
            if self.journal.start_sync(Mark(self.journal.committed_update, cursors)):
                self._synced_mono_ns = now

    def durable_cursor(self, source: int) -> int:
        """The last sequence of a source that is on the disk."""
        return self._durable_cursors[source] if source < len(self._durable_cursors) else 0
