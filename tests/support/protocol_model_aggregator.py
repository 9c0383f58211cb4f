"""The protocol model's aggregator: the real rules and the real journal, wired as in the process.

A small copy of ``aggregate.receiving.ingest``, ``aggregate.core`` and ``aggregate.leaving.liveness`` without
their sockets, clocks and leases; everything that decides is the real thing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from protocol_model_disk import Disk, run_syncs
from protocol_model_source import Link, ModelSource, repeats

from unilab_metrics.aggregate.core import Mark
from unilab_metrics.aggregate.folding.deciding import Decider
from unilab_metrics.aggregate.folding.ending import withdrawal
from unilab_metrics.aggregate.folding.entries import (
    AcceptedBatch,
    Entry,
    OpenAttempt,
    RunEnd,
    SourceGone,
)
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.journaling.journal import Journal
from unilab_metrics.aggregate.leaving.launch_order import is_rank_zero
from unilab_metrics.aggregate.patience import everyone_is_gone
from unilab_metrics.aggregate.receiving import accepting, receiver
from unilab_metrics.errors import StorageFullError
from unilab_metrics.storage.records import Record
from unilab_schema.codec import decode_upward, encode_message
from unilab_schema.control import Batch, Cursor, Hello, Reject

if TYPE_CHECKING:
    from protocol_model import World

WINDOW = 16


@dataclass
class _Peer:
    link: Link | None = None
    must_answer: bool = False
    must_rewind: bool = False
    told_durable: int = 0


@dataclass(frozen=True)
class Told:
    """What a source has been told of its records: this much must never be lost again."""

    cursor: int
    durable: int


FOLDING_NS = 50_000_000
"""Of each entry: a snapshot is due after some twenty."""


class ModelAggregator:
    """One life. Raises ``Crash`` out of any method when the schedule says so."""

    steps = ("receive", "check", "seal", "commit", "sync", "answer")
    welcomes_at_once = False
    adopts = True
    reopens = True

    def __init__(self, world: World, disk: Disk) -> None:
        self.world = world
        self.disk = disk
        self.journal = Journal(disk.root)
        self.state = self.journal.state
        self.decider = Decider(self.state)
        self.decider.resumed(world.now)
        self.durable_update = 0
        self.full = False
        self._peers: dict[int, _Peer] = {}
        self._durable: tuple[int, ...] = ()

    def turn(self, rng: Random) -> None:
        """One turn of the loop."""
        steps: dict[str, Callable[[Random], None]] = {
            "receive": self._receive,
            "check": self._check,
            "seal": self._seal,
            "commit": self._commit,
            "sync": self._sync,
            "answer": self._answer,
        }
        for step in self.steps:
            steps[step](rng)
            self.disk.point()

    def fold(self, entry: Entry, records: list[Record] | None = None) -> None:
        back = withdrawal(self.state.data, entry, 0, self.world.now)
        if back is not None and self.reopens:
            self._fold(back)
        self._fold(entry, records)

    def _fold(self, entry: Entry, records: list[Record] | None = None) -> None:
        self.journal.append(entry)
        self.journal.snapshots.folded(FOLDING_NS)
        late = self.state.data.late_values
        self.journal.publish(self.state.handle(entry, records))
        if isinstance(entry, AcceptedBatch):
            is_replaced = self.state.data.sources[entry.source].attempt < self.state.data.attempt
            news = self.state.data.late_values - late
            assert is_replaced or news <= repeats(entry.records), "late without a reason"

    # --- input ---------------------------------------------------------------------------

    def _receive(self, rng: Random) -> None:
        for _ in range(rng.randint(1, 12)):
            waiting = [link for link in self.world.links() if link.up]
            if not waiting:
                return
            link = rng.choice(waiting)
            data = link.up[0] if self.world.duplicates(rng) else link.up.popleft()
            message = decode_upward(data)
            if isinstance(message, Hello):
                self._take_hello(link, message)
            else:
                self._take_batch(link, message)

    def _take_hello(self, link: Link, hello: Hello) -> None:
        admission = receiver.admit(self.state, hello, self._is_dead)
        if admission.vacate is not None:
            self._vacate(admission.vacate)
            admission = receiver.admit(self.state, hello, self._is_dead)
        if admission.refusal is not None:
            link.down.append(encode_message(admission.refusal))
            return
        self._admit(admission)
        source = self.state.source_of(hello.identity.incarnation)
        assert source is not None
        peer = self._peers.setdefault(source.index, _Peer())
        peer.link = link
        peer.must_answer = True
        self.decider.heard(source.index, self.world.now)
        if self.welcomes_at_once:
            self._tell(source, peer)

    def _seal_all(self) -> None:
        while (seal := self.decider.flush(self.world.now, self.world.now)) is not None:
            self.fold(seal)

    def _admit(self, admission: receiver.Admission) -> None:
        if admission.opens_attempt:
            self._seal_all()
            self.fold(OpenAttempt(self.state.data.attempt + 1, self.world.now))
        for entry in admission.entries:
            self.fold(entry)

    def _take_batch(self, link: Link, batch: Batch) -> None:
        source = self.state.source_of(batch.incarnation)
        if source is None:
            link.down.append(encode_message(Reject("unknown_source", "", retry_after_s=0.0)))
            return
        peer = self._peers.setdefault(source.index, _Peer())
        peer.link = link
        peer.must_answer = True
        self.decider.heard(source.index, self.world.now)
        if self.full:
            return
        accepted = accepting.accept(source, batch.records, batch.watermark_mono_ns)
        if accepted.entry is not None:
            self.fold(accepted.entry, accepted.records)
        if accepted.rewind:
            peer.must_rewind = True
        elif accepted.entry is None:
            source.raise_watermark(batch.watermark_mono_ns)

    # --- sources that are gone -----------------------------------------------------------

    def _is_dead(self, source: SourceState) -> bool:
        return not self.world.source(source.identity.incarnation).is_alive

    def _check(self, rng: Random) -> None:
        if rng.random() < 0.5:
            return
        for source in list(self.state.data.sources):
            if source.status == "lost":
                self._adopt(source)
            if source.status == "finished":
                continue
            if source.ended is not None:
                self.fold(SourceGone(source.index, "finished", 0, self.world.now))
            elif source.status == "live" and self._is_dead(source):
                self._vacate(source)
        put_off: list[ModelSource] = []
        for orphan in self.world.orphans(self.state):
            if not self._adopt_unknown(orphan):
                put_off.append(orphan)
            elif is_rank_zero(orphan.identity):
                put_off = [one for one in put_off if not self._adopt_unknown(one)]
        if rng.random() < 0.5:
            self._end_run()

    def _end_run(self) -> None:
        data = self.state.data
        if everyone_is_gone(data) and data.ended is None:
            self._seal_all()
            self.fold(RunEnd("completed", "", 0))

    def _adopt(self, source: SourceState) -> None:
        model = self.world.source(source.identity.incarnation)
        if self.adopts and not model.is_alive and not model.is_hidden:
            accepted = accepting.accept(source, model.leftovers(source.cursor), 0)
            if accepted.entry is not None:
                self.fold(accepted.entry, accepted.records)

    def _vacate(self, source: SourceState) -> None:
        self._adopt(source)
        how = "finished" if source.ended is not None else "lost"
        self.fold(SourceGone(source.index, how, 0, self.world.now))

    def _adopt_unknown(self, orphan: ModelSource) -> bool:
        hello = Hello(orphan.identity, 1, orphan.last, 0, 0)
        admission = receiver.admit(self.state, hello, self._is_dead, is_orphan=True)
        if admission.vacate is not None:
            self._vacate(admission.vacate)
            admission = receiver.admit(self.state, hello, self._is_dead, is_orphan=True)
        if admission.refusal is not None:
            return False
        self._admit(admission)
        source = self.state.source_of(orphan.identity.incarnation)
        assert source is not None
        if source.status == "live":
            self._vacate(source)
        else:
            self._adopt(source)
        return True

    # --- output --------------------------------------------------------------------------

    def _seal(self, _: Random) -> None:
        now = self.world.now
        while (seal := self.decider.due(now, now)) is not None:
            self.fold(seal)

    def _commit(self, _: Random) -> None:
        self.full = False
        if self.journal.has_uncommitted:
            try:
                self.journal.commit()
            except StorageFullError:
                self.full = True

    def _sync(self, rng: Random) -> None:
        if self.journal.is_syncing and rng.random() < 0.6:
            run_syncs(self.journal._syncer)
        mark = self.journal.finished_sync()
        if isinstance(mark, Mark):
            self.durable_update, self._durable = mark
        if not self.journal.has_uncommitted:
            cursors = tuple(source.cursor for source in self.state.data.sources)
            self.journal.start_sync(Mark(self.journal.committed_update, cursors))

    def _answer(self, _: Random) -> None:
        if self.full:
            return
        for source in self.state.data.sources:
            peer = self._peers.get(source.index)
            if peer is None or peer.link is None:
                continue
            if peer.must_answer or self.durable_cursor(source.index) != peer.told_durable:
                self._tell(source, peer)

    def _tell(self, source: SourceState, peer: _Peer) -> None:
        durable = self.durable_cursor(source.index)
        cursor = Cursor(
            self.journal.epoch,
            source.cursor,
            durable,
            WINDOW,
            self.world.now,
            self.world.now,
            peer.must_rewind,
        )
        assert peer.link is not None
        peer.link.down.append(encode_message(cursor))
        peer.must_answer = peer.must_rewind = False
        peer.told_durable = durable
        self.world.told[source.identity.incarnation] = Told(source.cursor, durable)

    def durable_cursor(self, index: int) -> int:
        return self._durable[index] if index < len(self._durable) else 0

    @property
    def is_idle(self) -> bool:
        """Everything that was taken is durable, and nobody is open."""
        data = self.state.data
        return (
            not self.journal.has_uncommitted
            and self.durable_update >= self.journal.committed_update
            and data.ended is not None
            and not (data.windows.open or data.windows.late)
        )
