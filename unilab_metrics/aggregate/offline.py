"""Finishing a journal without sockets: what an aggregator would do if it were still there.

The caller holds the aggregator's lease and has made sure that none of the run's processes of
this node lives. Sources of other nodes cannot be seen, so they count as gone.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from unilab_metrics.aggregate.core import Core
from unilab_metrics.aggregate.folding.entries import (
    AcceptedBatch,
    Entry,
    GapFound,
    RunEnd,
    Seal,
    SourceJoined,
)
from unilab_metrics.aggregate.folding.limits import identity_fault
from unilab_metrics.aggregate.folding.run_data import RunData
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.journaling.blocks import BlockStore
from unilab_metrics.aggregate.journaling.journal import Journal
from unilab_metrics.aggregate.leaving.leftovers import SpoolDirectories
from unilab_metrics.aggregate.leaving.liveness import Liveness
from unilab_metrics.aggregate.outcome import end_status, outcome_of
from unilab_metrics.aggregate.receiving.peers import Peer
from unilab_metrics.aggregate.receiving.receiver import MAX_SOURCES
from unilab_metrics.errors import StorageError
from unilab_metrics.outcome import RunOutcome
from unilab_metrics.storage.filesystem import boot_id
from unilab_metrics.storage.records import Record
from unilab_schema.codec import FrameDecodeError, RecordKind, decode_payload
from unilab_schema.identity import Identity

_STRAGGLER_DEADLINE_S = 30.0
_PAUSE_S = 0.005
_ROOM_TIMEOUT_S = 30.0


class Taken(NamedTuple):
    """What was adopted of one source. ``records``: with a sequence, gaps apart. ``lost``:
    sequences that nobody can read any more, and ``reasons`` why; ``is_at_most``: the history may
    have what some of them said."""

    identity: Identity
    records: int
    lost: int
    reasons: tuple[str, ...]
    is_at_most: bool = False


class _TallyingCore(Core):
    """Counts what is folded."""

    def __init__(self, journal: Journal, blocks: BlockStore) -> None:
        super().__init__(journal, blocks, _STRAGGLER_DEADLINE_S)
        self.records: Counter[int] = Counter()
        self.reasons: dict[int, dict[str, None]] = {}
        self.seals: Counter[str] = Counter()

    def fold(self, entry: Entry, records: list[Record] | None = None) -> None:
        """Journal an entry and take it into the state."""
        if isinstance(entry, AcceptedBatch):
            for record in records or []:
                self._count(entry.source, record)
        elif isinstance(entry, GapFound):
            self.reasons.setdefault(entry.source, {})[entry.reason] = None
        elif isinstance(entry, Seal):
            self.seals["supplements" if entry.supplement else "iterations"] += 1
        super().fold(entry, records)

    def makes_room(self) -> bool:
        """Waits for the disk. Raises ``StorageError`` if it is full or does not answer."""
        deadline_s = time.monotonic() + _ROOM_TIMEOUT_S
        while not super().makes_room():
            if self.problem or time.monotonic() >= deadline_s:
                reason = self.problem or f"not on the disk within {_ROOM_TIMEOUT_S:g} s"
                raise StorageError(self.journal.segments[-1].path.parent, reason)
            time.sleep(_PAUSE_S)
        return True

    def _count(self, source: int, record: Record) -> None:
        if record.kind != RecordKind.GAP:
            self.records[source] += record.sequence > 0
            return
        try:
            reason = decode_payload(RecordKind.GAP, record.payload).reason
        except FrameDecodeError:
            reason = "damaged"
        self.reasons.setdefault(source, {})[reason] = None


class OfflineJournal:
    """The journal of a run that has no aggregator. Owned by one thread; close it.

    Raises what ``Journal`` raises.
    """

    def __init__(self, bus_dir: Path, spools: SpoolDirectories) -> None:
        journal = Journal(bus_dir)
        self._spools = spools
        self._blocks = BlockStore(bus_dir, journal)
        self._core = _TallyingCore(journal, self._blocks)
        self._state = self._core.state
        self._lost_before = [source.lost_frames for source in self._state.data.sources]
        self._liveness = Liveness(
            self._core,
            boot_id=boot_id(),
            spools=spools,
            lost_after_s=0.0,
            peer=lambda _: Peer(),
        )
        self._liveness.keeps_spools = True
        self.damaged_records = journal.damaged_records
        self._late_before = self._state.data.late_values
        self.elsewhere: list[Identity] = []
        """Sources that never said goodbye and whose spools are not here."""
        self.refused: dict[Path, str] = {}
        """Spools that were left where they are, and why."""

    @property
    def seals(self) -> Counter[str]:
        """How many iterations and supplements were sealed here."""
        return self._core.seals

    @property
    def data(self) -> RunData:
        """What the journal says by now."""
        return self._state.data

    @property
    def last_update(self) -> int:
        """The newest update sequence."""
        return self._core.journal.committed_update

    @property
    def late_values(self) -> int:
        """Values that were adopted here and are in no update: their iterations have the tags
        already, or their attempt was replaced by a later one."""
        return self._state.data.late_values - self._late_before

    def taken(self) -> list[Taken]:
        """What was adopted, by source."""
        found: list[Taken] = []
        for source in self._state.data.sources:
            known = source.index < len(self._lost_before)
            lost = source.lost_frames - (self._lost_before[source.index] if known else 0)
            records = self._core.records[source.index]
            if records or lost or not known:
                reasons = tuple(self._core.reasons.get(source.index, {}))
                is_at_most = lost > 0 and source.perhaps_lost > 0
                found.append(Taken(source.identity, records, lost, reasons, is_at_most))
        return found

    def finish(self) -> bool:
        """Adopt every spool, seal what is open, and end the run; whether that end is new."""
        data = self._state.data
        for source in data.sources:
            if source.status == "live":
                if source.ended is None and self._spools.spool_of(source.identity) is None:
                    self.elsewhere.append(source.identity)
            else:
                # An aggregator that did not know the place of its spool has given it up.
                self._liveness.vacate_again(source)
        self._liveness.check()
        self._adopt_refused()
        self._core.seal_all()
        if data.ended is not None:
            return False
        status, text = end_status(data)
        self._core.fold(RunEnd(status, text, time.time_ns()))
        return True

    def _adopt_refused(self) -> None:
        """Spools that a live aggregator leaves for a later attempt: there is none."""
        identities = [source.identity for source in self._state.data.sources]
        known = {Path(identity.spool_path) for identity in identities}
        known |= {found for one in identities if (found := self._spools.spool_of(one))}
        for orphan in list(self._spools.orphans(known)):
            fault = self._fault(orphan.directory, orphan.identity)
            if fault:
                self.refused[orphan.directory] = fault
                continue
            source = SourceState(len(self._state.data.sources), orphan.identity)
            self._core.fold(SourceJoined(source.index, orphan.identity))
            self._liveness.vacate(self._state.data.sources[source.index])

    def _fault(self, directory: Path, identity: Identity) -> str:
        if self._spools.spool_of(identity) != directory:
            return f"says that it is {identity.spool_path}"
        if self._state.source_of(identity.incarnation) is not None:
            return "belongs to a process that the journal knows at another place"
        if len(self._state.data.sources) >= MAX_SOURCES:
            return f"{MAX_SOURCES} sources are known already"
        return identity_fault(identity)

    def make_durable(self, timeout_s: float) -> None:
        """Commit and sync everything. Raises ``StorageError`` if that takes too long."""
        core = self._core
        deadline_s = time.monotonic() + timeout_s
        while True:
            core.commit()
            core.sync()
            if self._is_durable():
                return
            if time.monotonic() >= deadline_s:
                reason = core.full_reason or f"not on the disk within {timeout_s:g} s"
                raise StorageError(core.journal.segments[-1].path.parent, reason)
            time.sleep(_PAUSE_S)

    def _is_durable(self) -> bool:
        core = self._core
        if core.journal.has_uncommitted or core.durable_update < core.journal.committed_update:
            return False
        sources = self._state.data.sources
        return all(core.durable_cursor(source.index) >= source.cursor for source in sources)

    def outcome(self, run_dir: Path, backends: dict[str, int]) -> RunOutcome:
        """The end as facts, for the summary."""
        return outcome_of(self._state, run_dir, {}, backends)

    def remove_spools(self) -> None:
        """Delete the spools of which everything is durable."""
        self._liveness.remove_finished()

    def close(self) -> None:
        """Raises ``StorageFullError`` or ``OSError`` if something is not committed."""
        try:
            self._blocks.close()
        finally:
            self._core.journal.close()
