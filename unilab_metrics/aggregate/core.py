"""State and journal together: fold what came, commit it, know what is durable."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from unilab_metrics import crash_points
from unilab_metrics.aggregate.folding.deciding import Decider
from unilab_metrics.aggregate.folding.ending import withdrawal
from unilab_metrics.aggregate.folding.entries import BusNews, Entry, Notice, Seal
from unilab_metrics.aggregate.folding.state import AggregatorState, Publication
from unilab_metrics.aggregate.journaling.blocks import BlockStore
from unilab_metrics.aggregate.journaling.journal import Journal
from unilab_metrics.aggregate.process_log import say
from unilab_metrics.aggregate.receiving.bus_meter import CommitTimes
from unilab_metrics.errors import StorageFullError
from unilab_metrics.said_once import SaidOnce, cause_of
from unilab_metrics.storage.records import Record
from unilab_schema.control import Epoch

RETRY_NS = 1_000_000_000
SEALING_NS = 50_000_000
"""How long the loop seals at a time before it answers others."""
SYNC_INTERVAL_NS = 50_000_000
LARGE_BYTES = 4 * 1024 * 1024
STALL_NS = 10_000_000_000
MAX_WAITING_BYTES = 64 * 1024 * 1024
"""Bytes in memory that are not on the disk; from here on input is left in the spools."""


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
        self._committed_cursors = tuple(source.cursor for source in self.state.data.sources)
        self._renew_mono_ns = 0
        self._directory = journal.segments[-1].path.parent
        self._write_trouble, self._sync_trouble = _Trouble(), _Trouble()
        self._rotation = SaidOnce()
        self.untold: list[str] = []
        """Troubles of the disk that are over and no event: nothing follows the run's end."""
        self.has_due = False
        self.full_reason = ""
        """Why commits fail now; empty while they do not."""
        self.commits = CommitTimes()
        self.bus_news: Callable[[int], BusNews | None] = _no_news
        """What the next seal tells of the bus, as of a monotonic time."""
        self.heed: Callable[[list[Publication]], None] = _heed_nothing
        """Hears what the history gains, before that is committed."""

    @property
    def epoch(self) -> Epoch:
        """Names this life of the aggregator."""
        return self.journal.epoch

    def fold(self, entry: Entry, records: list[Record] | None = None) -> None:
        """Journal an entry and take it into the state. What comes of an attempt that has ended
        and was not replaced opens it again."""
        back = withdrawal(self.state.data, entry, time.time_ns(), time.monotonic_ns())
        if back is not None:
            say(back.text)
            self._fold(back)
        self._fold(entry, records)
        for text in self.state.refusals.take(self.state.data.warnings):
            say(text)
            self._tell(text)

    def _fold(self, entry: Entry, records: list[Record] | None = None) -> None:
        self.journal.append(entry)
        began = time.thread_time_ns()
        published = self.state.handle(entry, records)
        self.journal.snapshots.folded(time.thread_time_ns() - began)
        self.journal.publish(published)
        self.blocks.add(published)
        self.heed(published)

    def notice(self, kind: str, text: str) -> None:
        """An event of the aggregator's own. Nothing that is only told follows the run's end."""
        if self.state.data.ended is not None:
            self.untold.append(text)
            return
        self.fold(Notice(kind, text, time.monotonic_ns(), time.time_ns()))

    def seal_due(self, awaited_ranks: Callable[[], frozenset[int]]) -> None:
        """Seal the iterations whose time has come, for a while: :attr:`has_due` says whether some
        are left. ``awaited_ranks``: see ``due``."""
        self.has_due = False
        if not (self.state.data.windows.open or self.state.data.windows.late):
            return
        now = time.monotonic_ns()
        awaited = awaited_ranks()
        while (seal := self.decider.due(now, time.time_ns(), awaited)) is not None:
            self._seal(seal)
            if time.monotonic_ns() - now > SEALING_NS:
                self.has_due = True
                return

    def seal_all(self) -> None:
        """Seal what is open; nobody can add to it any more."""
        while (seal := self.decider.flush(time.monotonic_ns(), time.time_ns())) is not None:
            self._seal(seal)

    def _seal(self, seal: Seal) -> None:
        if not seal.supplement and (news := self.bus_news(seal.mono_ns)) is not None:
            seal = msgspec.structs.replace(seal, bus=news)
        self.fold(seal)

    @property
    def accepts_input(self) -> bool:
        """False while too much waits for a disk that is full, fails or does not answer."""
        return self.journal.waiting_bytes < MAX_WAITING_BYTES

    def makes_room(self) -> bool:
        """Between the parts of something large: whether the next one may be folded now."""
        if self.journal.waiting_bytes > LARGE_BYTES:
            self.commit()
            self.sync()
        return self.accepts_input

    @property
    def problem(self) -> str:
        """What is wrong with the journal's disk; empty while all is well."""
        return self.full_reason or self._sync_trouble.text

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
            self._write_trouble.begins(f"journal: {error}", cause_of(error), now)
            self.full_reason = self._write_trouble.text
            self._retry_mono_ns = now + RETRY_NS
            return False
        self.commits.add(time.monotonic_ns() - now)
        if crash_points.armed:
            crash_points.reach("aggregator.committed")
        self._committed_cursors = tuple(source.cursor for source in self.state.data.sources)
        self.blocks.write()
        if self.full_reason:
            self.full_reason = ""
            self._tell(self._write_trouble.ends("writing", now))
        self._heed_rotation(self.journal.rotation_error)
        return True

    def _heed_rotation(self, error: BaseException | None) -> None:
        if error is None:
            self._rotation.works("")
        elif text := self._rotation.fails(
            cause_of(error), f"journal: {error}; goes on in the old file"
        ):
            say(text)

    def sync(self) -> None:
        """Take the result of a sync that has finished, and start one if it is due."""
        journal, now = self.journal, time.monotonic_ns()
        try:
            self._take_sync(journal.finished_sync(), now)
            if journal.needs_renewal and now >= self._renew_mono_ns:
                # Before another sync: the kernel forgets what it could not write.
                self._renew_mono_ns = now + RETRY_NS
                journal.renew()
            is_due = now - self._synced_mono_ns >= SYNC_INTERVAL_NS
            if is_due and not journal.needs_renewal and not journal.has_uncommitted:
                cursors = tuple(source.cursor for source in self.state.data.sources)
                if journal.start_sync(Mark(journal.committed_update, cursors)):
                    self._synced_mono_ns = now
        except (OSError, StorageFullError) as error:
            text = f"journal: sync of {self._directory} failed: {error}"
            self._sync_trouble.begins(text, cause_of(error), now)
        if journal.is_syncing and now - self._synced_mono_ns > STALL_NS:
            text = f"journal: the disk of {self._directory} has not answered a sync for 10 s"
            self._sync_trouble.begins(text, "stalled", now)

    def _take_sync(self, finished: object, now: int) -> None:
        if not isinstance(finished, Mark):
            return
        if crash_points.armed:
            crash_points.reach("aggregator.synced")
        self.durable_update = finished.update
        self._durable_cursors = finished.cursors
        if self._sync_trouble.text:
            self._tell(self._sync_trouble.ends("syncing", now))

    def _tell(self, text: str) -> None:
        if not text:
            return
        if self.state.data.opened:
            self.notice("warning", text)
        else:
            self.untold.append(text)

    def committed_cursor(self, source: int) -> int:
        """The last sequence of a source that is in the journal's files."""
        known = self._committed_cursors
        return known[source] if source < len(known) else 0

    def durable_cursor(self, source: int) -> int:
        """The last sequence of a source that is on the disk."""
        return self._durable_cursors[source] if source < len(self._durable_cursors) else 0


def _no_news(_mono_ns: int) -> BusNews | None:
    return None


def _heed_nothing(_published: list[Publication]) -> None:
    return


class _Trouble:
    """Something that fails until it works again: said when it begins and when it ends."""

    def __init__(self) -> None:
        self.text = ""
        self._since_mono_ns = 0
        self._said = SaidOnce()

    def begins(self, text: str, cause: str, now: int) -> None:
        if not self.text:
            self.text, self._since_mono_ns = text, now
            if said := self._said.fails(cause, f"{text}; frames wait in the spools"):
                say(said)

    def ends(self, what: str, now: int) -> str:
        lasted_s = (now - self._since_mono_ns) / 1e9
        text = f"{self.text}; {what} went on after {lasted_s:.1f} s, nothing was lost"
        self.text = ""
        text = self._said.works(text)
        if text:
            say(text)
        return text
