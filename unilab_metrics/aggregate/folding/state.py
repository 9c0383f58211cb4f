"""The aggregator's pure core: wal entries in, history entries out. No clock, no I/O.

``handle`` folds one entry and returns what the run's history gains. Decisions are entries
too: ``deciding`` says which one is due, the caller journals it and hands it to ``handle``, so
that a restart that folds the same entries arrives at the same numbers without asking a clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from unilab_metrics.aggregate.folding import attendance, ending, frame_intake, passing_over, sealing
from unilab_metrics.aggregate.folding.alerting import Alerting
from unilab_metrics.aggregate.folding.entries import (
    AcceptedBatch,
    AlertRules,
    EndWithdrawn,
    Entry,
    GapFound,
    Notice,
    OpenAttempt,
    RunEnd,
    Seal,
    SourceGone,
    SourceJoined,
    SourceReturned,
)
from unilab_metrics.aggregate.folding.key_set_columns import ColumnsOfKeySets
from unilab_metrics.aggregate.folding.newest_frames import NewestFrames
from unilab_metrics.aggregate.folding.packed import (
    Float64s,
    Int64s,
    pack_integers,
    pack_values,
    unpack_integers,
    unpack_values,
)
from unilab_metrics.aggregate.folding.recent_frames import RecentFrames
from unilab_metrics.aggregate.folding.reduction import TagColumns
from unilab_metrics.aggregate.folding.refused_frames import RefusedFrames
from unilab_metrics.aggregate.folding.reports import Reports
from unilab_metrics.aggregate.folding.run_data import RunData
from unilab_metrics.aggregate.folding.snapshots import decode_snapshot, encode_snapshot
from unilab_metrics.aggregate.folding.sources import KeySets, SourceState
from unilab_metrics.aggregate.folding.update_layouts import UpdateLayouts
from unilab_metrics.storage.records import Record, scan
from unilab_schema.frames import EventFrame, Scalar
from unilab_schema.identity import LEARNER, RunInfo, SourceKey
from unilab_schema.metrics import MetricTable
from unilab_schema.updates import AttemptOpened, EventUpdate, HistoryEntry

_NO_FACTS: Mapping[str, Scalar] = {}


class Publication(NamedTuple):
    """A history entry with its update sequence; ``tags``: those of an update's layout."""

    sequence: int
    entry: HistoryEntry
    tags: tuple[str, ...] = ()


class Latest(NamedTuple):
    """The newest value of every tag, and the update sequence that carried it."""

    tags: tuple[str, ...]
    values: Float64s
    updates: Int64s


class AggregatorState:
    """One run's numbers. Owned by the aggregator's only thread."""

    def __init__(self, snapshot: bytes | None = None) -> None:
        """``snapshot``: bytes of :meth:`snapshot`. Raises ``msgspec.MsgspecError`` on others."""
        self.data = RunData() if snapshot is None else decode_snapshot(snapshot)
        self.key_sets = KeySets(self.data.key_sets)
        self.defined = {spec.tag: spec for spec in self.data.definitions}
        self.columns = TagColumns(MetricTable(self.defined.values()), self.data.refused_tags)
        self.columns.columns(tuple(self.data.columns))
        self.layouts = UpdateLayouts(self.data.update_layouts, self.data.next_layout, self.columns)
        self.key_set_columns = ColumnsOfKeySets(self.key_sets, self.columns)
        self.refusals = RefusedFrames()
        self.newest_frames = NewestFrames()
        self.recent_frames = RecentFrames()
        self._by_incarnation = {s.identity.incarnation: s for s in self.data.sources}
        self.learners = [s for s in self.data.sources if s.is_learner]
        """Sources whose frames are iterations, gone ones included."""
        self.others = [s for s in self.data.sources if not s.is_learner]
        self.latest_values = np.array(unpack_values(self.data.latest_values))
        self.latest_updates = np.array(unpack_integers(self.data.latest_updates))
        self.grow_latest(len(self.columns.tags))
        self.alerting = Alerting(self)

    # --- folding -------------------------------------------------------------------------

    def handle(  # noqa: PLR0911 - one case per kind of entry
        self, entry: Entry, records: list[Record] | None = None
    ) -> list[Publication]:
        """Fold an entry. ``records``: those of an ``AcceptedBatch``, if already scanned."""
        match entry:
            case AcceptedBatch():
                source = self.data.sources[entry.source]
                if records is None:
                    records = scan(entry.records).records
                published = frame_intake.take_records(self, source, records)
                source.raise_watermark(entry.watermark_mono_ns)
                return published
            case Seal():
                return sealing.seal(self, entry)
            case SourceJoined():
                return self._join(entry)
            case SourceGone() | SourceReturned():
                return self._change_status(entry)
            case GapFound():
                source = self.data.sources[entry.source]
                source.pass_gap(entry.first, entry.last)
                source.forget_beyond()
                self.data.gaps += 1
                return []
            case OpenAttempt():
                return self._open_attempt(entry)
            case Notice() | AlertRules():
                return self.alerting.take(entry)
            case RunEnd():
                return ending.end_run(self, entry)
            case EndWithdrawn():
                return ending.withdraw_end(self, entry)

    def publication(self, entry: HistoryEntry, tags: tuple[str, ...] = ()) -> Publication:
        """Give a history entry the next update sequence."""
        sequence = self.data.next_update
        self.data.next_update += 1
        return Publication(sequence, entry, tags)

    def own_event(
        self,
        kind: str,
        text: str,
        mono_ns: int,
        unix_ns: int,
        facts: Mapping[str, Scalar] = _NO_FACTS,
        iteration: int | None = None,
    ) -> Publication:
        """An event that the aggregator itself tells, by default of the newest iteration."""
        if kind == "warning":
            self.data.count_warning(text, facts)
        iteration = self.data.last_iteration if iteration is None else iteration
        frame = EventFrame(kind, text, mono_ns, unix_ns, iteration, dict(facts))
        return self.publication(EventUpdate(self.data.attempt, None, frame))

    def ensure_opened(self, unix_ns: int) -> list[Publication]:
        """The attempt's opening, if it has not been published yet."""
        data = self.data
        if data.opened:
            return []
        data.opened = True
        data.opened_unix_ns = unix_ns
        opened = AttemptOpened(data.attempt, unix_ns, data.run, data.earlier_elapsed_s)
        return [self.publication(opened)]

    def forget_unused(self) -> None:
        """Forget the key sets that no layout, report or open iteration refers to."""
        self.key_sets.keep(self.data.used_key_sets())

    def grow_latest(self, size: int) -> None:
        """Make room for new columns in the newest values."""
        missing = size - len(self.latest_values)
        if missing > 0:
            self.latest_values = np.append(self.latest_values, np.zeros(missing))
            self.latest_updates = np.append(self.latest_updates, np.zeros(missing, np.int64))

    def _join(self, entry: SourceJoined) -> list[Publication]:
        identity = entry.identity
        data = self.data
        source = SourceState(entry.source, identity, attempt=data.attempt, joined=data.attempt)
        is_back = passing_over.is_back(data, source)
        is_new_rank = source.is_learner and source.rank not in attendance.joined_ranks(data)
        data.sources.append(source)
        (self.learners if source.is_learner else self.others).append(source)
        self._by_incarnation[identity.incarnation] = source
        if entry.is_late or not source.is_learner:
            return attendance.stay_outside(data, source) if entry.is_late else []
        if is_new_rank:
            data.waived = max(data.waived - 1, 0)
        if source.rank != 0:
            # Stands in until rank 0 has come.
            data.run = identity.run if data.run == RunInfo() else data.run
            data.expected_learners = max(data.expected_learners, identity.expected_learners)
            return attendance.doubts_of_world(self, source)
        if source.attempt < data.attempt:
            return []
        data.run = identity.run
        data.expected_learners = identity.expected_learners
        # Rank 0 knows the run; an opening that was published without it is refined.
        data.opened = data.opened and is_back
        opened = self.ensure_opened(identity.started_unix_ns)
        return [*opened, *attendance.doubts_of_world(self, source)]

    def _change_status(self, entry: SourceGone | SourceReturned) -> list[Publication]:
        source = self.data.sources[entry.source]
        if isinstance(entry, SourceReturned):
            attendance.come_back(self.data, source)
            return [self.own_event("returned", entry.text, entry.mono_ns, entry.unix_ns)]
        source.status = "finished" if entry.how == "finished" else "lost"
        source.ending = entry.ending
        source.settle_last_gap(self.data.windows.last_sealed)
        if source.status == "finished":
            source.forget_names()
            return []
        if entry.how in attendance.REPLACED:
            return attendance.leave_out(self, source, entry)
        text = entry.text or f"{source.name} ended without close()"
        return [self.own_event("lost", text, entry.mono_ns, entry.unix_ns)]

    def _open_attempt(self, entry: OpenAttempt) -> list[Publication]:
        data = self.data
        data.attempt = entry.attempt
        data.earlier_elapsed_s = data.elapsed_s
        data.attempt_iteration = None
        data.env_steps = None
        data.last_iteration = None
        data.waived = 0
        data.ended = None
        data.opened = False
        data.sealed_tags.clear()
        data.windows.reset()
        data.passed_stamps.clear()
        self.alerting.new_attempt()
        for source in data.sources:
            if source.status == "live":
                source.attempt = entry.attempt
            else:
                source.reports = Reports()
        return []

    # --- looking -------------------------------------------------------------------------

    def live_learners(self) -> list[SourceState]:
        """Learners that may send iterations."""
        return [s for s in self.learners if s.status == "live" and s.ended is None]

    def source_of(self, incarnation: bytes) -> SourceState | None:
        """The source of an incarnation, if it was admitted."""
        return self._by_incarnation.get(incarnation)

    def occupant(self, rank: int, role: str, instance: int) -> SourceState | None:
        """The newest incarnation in a place; an earlier attempt's may have been found later."""
        key = SourceKey(rank, role, instance)
        here = (s for s in self.data.sources if s.identity.key == key and not s.is_double)
        return max(here, key=lambda source: (source.attempt, source.index), default=None)

    def learner_zero(self) -> SourceState | None:
        """Rank 0's newest learner."""
        return self.occupant(0, LEARNER, 0)

    def ranks_expected(self) -> int:
        """Learner ranks that publish iterations, those of the attempt that are lost included."""
        attempt = self.data.attempt
        taking_part = {s.rank for s in self.learners if s.attempt == attempt}
        return max(self.data.expected_learners, len(taking_part))

    def latest(self) -> Latest:
        """Newest values of the tags that any update has carried."""
        shown = np.flatnonzero(self.latest_updates > 0)
        names, values = self.columns.names(shown), self.latest_values[shown]
        return Latest(names, values, self.latest_updates[shown])

    def latest_value(self, tag: str) -> float | None:
        """The newest value of a tag, ``None`` if no update has carried it."""
        column = self.columns.known(tag)
        if column is None or column >= len(self.latest_updates):
            return None
        return float(self.latest_values[column]) if self.latest_updates[column] else None

    def snapshot(self) -> bytes:
        """The whole state; folding the entries after it continues as if never stopped."""
        self.forget_unused()
        self.alerting.pack()
        self.data.definitions = list(self.defined.values())
        self.data.refused_tags = self.columns.refused
        self.data.columns = list(self.columns.tags)
        self.data.update_layouts = self.layouts.packed()
        self.data.next_layout = self.layouts.next_number
        self.data.latest_values = pack_values(self.latest_values)
        self.data.latest_updates = pack_integers(self.latest_updates)
        return encode_snapshot(self.data)
