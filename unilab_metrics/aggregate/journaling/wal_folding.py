"""Folding a wal as it lies there, up to the first damage that a snapshot does not make good.
Reads only."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from unilab_metrics.aggregate.folding.beyond_damage import BeyondDamage
from unilab_metrics.aggregate.folding.entries import (
    TWICE,
    EndWithdrawn,
    Entry,
    EntryKind,
    OpenAttempt,
    SourceJoined,
    decode_entry,
)
from unilab_metrics.aggregate.folding.state import AggregatorState, Publication
from unilab_metrics.storage.records import Damage, Record, scan
from unilab_metrics.storage.segments import KIND_SEGMENT_HEADER, open_segment, read_at

# A batch entry holds whole records, so a scan must not take the inner ones for outer ones.
WAL_KINDS = frozenset([KIND_SEGMENT_HEADER, *EntryKind])
_MAX_HEADER_BYTES = 256
"""Beyond any segment header; a record that a source's joining takes is longer, or there twice."""


class Segment(NamedTuple):
    """What is good of a segment up to the length that counts; ``damaged``: where it is not."""

    records: list[Record]
    valid_bytes: int
    damaged: list[Damage]


class Fold(NamedTuple):
    """``missing``: publications beyond the update that was asked for. ``name``, ``valid_bytes``:
    of the last segment of which anything is good; ``lengths``: of all. ``first_update``: from
    which on updates are made again. ``snapshots``: segments whose snapshot could be read.
    ``beyond``: what follows damage up to which the state was folded, ``None`` if the state is
    exact: then any damage lies before a snapshot."""

    state: AggregatorState
    missing: list[Publication]
    damaged: int
    name: str
    lengths: dict[str, int]
    first_update: int
    snapshots: frozenset[str]
    beyond: BeyondDamage | None

    @property
    def valid_bytes(self) -> int:
        """How much of that one."""
        return self.lengths.get(self.name, 0)


def fold_wal(paths: list[Path], limits: dict[str, int], history_last: int) -> Fold:
    """Fold the segments. ``limits``: lengths that count, where a successor says it.
    ``history_last``: publications up to this one are not kept. Raises ``OSError``.

    What lies before the newest snapshot is folded only where something is damaged or missing: the
    state that comes of it is the snapshot's."""
    newest = _since_newest_snapshot(paths, limits, history_last)
    if newest is not None:
        return newest
    folding = _Folding(history_last)
    lengths: dict[str, int] = {}
    for path in paths:
        segment = read_whole(path, limits.get(path.name), WAL_KINDS)
        if segment.valid_bytes:
            lengths[path.name] = segment.valid_bytes
        folding.take(segment, path.name, is_first=path == paths[0])
    return Fold(
        folding.state,
        folding.missing,
        folding.damaged,
        next(reversed(lengths), ""),
        lengths,
        folding.first_update,
        frozenset(folding.snapshots),
        folding.beyond,
    )


def _since_newest_snapshot(
    paths: list[Path], limits: dict[str, int], history_last: int
) -> Fold | None:
    """What folding all of them would give; ``None`` if that takes more than the newest ones."""
    folding = _Folding(history_last)
    newest: list[tuple[str, Segment]] = []
    lengths: dict[str, int] = {}
    damaged_before, first_update = 0, 0
    for path in paths:
        segment = read_whole(path, limits.get(path.name), WAL_KINDS)
        if segment.valid_bytes:
            lengths[path.name] = segment.valid_bytes
        first_update = first_update or _first_update(segment)
        if path != paths[0] and any(r.kind == EntryKind.SNAPSHOT for r in segment.records):
            damaged_before += sum(len(before.damaged) for _, before in newest)
            newest = [(path.name, segment)]
        elif newest:
            newest.append((path.name, segment))
        else:
            damaged_before += len(segment.damaged)
    if not newest:
        return None
    for name, segment in newest:
        folding.take(segment, name, is_first=segment is newest[0][1])
    if folding.damaged or folding.first_update > history_last + 1:
        return None
    return Fold(
        folding.state,
        folding.missing,
        damaged_before,
        next(reversed(lengths)),
        lengths,
        first_update,
        frozenset(folding.snapshots),
        None,
    )


def _first_update(oldest: Segment) -> int:
    """From which on the segments give updates."""
    first = next(iter(since_snapshot(oldest.records)), None)
    if first is not None and first.kind == EntryKind.SNAPSHOT:
        with suppress(Exception):  # one that makes no sense says nothing
            return AggregatorState(bytes(first.payload)).data.next_update
    return 1


class _Folding:
    """The state as far as it was folded, and what could not be."""

    def __init__(self, history_last: int) -> None:
        self._history_last = history_last
        self.state = AggregatorState()
        self.missing: list[Publication] = []
        self.damaged = 0
        self.first_update = 1
        self.snapshots: set[str] = set()
        self.beyond: BeyondDamage | None = None

    def take(self, segment: Segment, name: str, *, is_first: bool) -> None:
        self.damaged += len(segment.damaged)
        records = since_snapshot(segment.records) if is_first else segment.records
        begins = records[0].start if records and is_first else 0
        damaged = iter([d for d in segment.damaged if d.start >= begins])
        damage = next(damaged, None)
        before: Record | None = None
        for record in records:
            while damage is not None and damage.start < record.start:
                if not _costs_nothing(damage, before, record):
                    self._break()
                damage = next(damaged, None)
            before = record
            if record.kind == EntryKind.SNAPSHOT:
                self._take_snapshot(record, name, is_first=is_first)
            elif record.kind != KIND_SEGMENT_HEADER:
                self._take_entry(record)

    def _break(self) -> None:
        if self.beyond is None:
            self.beyond = BeyondDamage(self.state)
        self.beyond.damaged()

    def _take_snapshot(self, record: Record, name: str, *, is_first: bool) -> None:
        try:
            state = AggregatorState(bytes(record.payload))
        except Exception:  # noqa: BLE001 - a state that makes no sense is damage too
            self.damaged += 1
            if is_first:
                self._break()
            return
        self.state, self.beyond = state, None
        if not self.snapshots and is_first:
            self.first_update = state.data.next_update
        self.snapshots.add(name)
        self.missing = [p for p in self.missing if p.sequence < state.data.next_update]

    def _take_entry(self, record: Record) -> None:
        try:
            entry = decode_entry(record.kind, record.payload)
            if self.beyond is not None:
                self.beyond.take(entry)
                return
            if is_copy(self.state, entry):
                return
            published = self.state.handle(entry)
        except Exception:  # noqa: BLE001 - an entry whose handling raises costs itself only
            self.damaged += 1
            return
        self.missing += [p for p in published if p.sequence > self._history_last]


def _costs_nothing(damage: Damage, before: Record | None, after: Record) -> bool:
    """Whether it was one of two copies, or nothing but a segment's header."""
    if before is None and after.kind in (EntryKind.SNAPSHOT, EntryKind.SOURCE_JOINED):
        return damage.end - damage.start <= _MAX_HEADER_BYTES
    size = damage.end - damage.start
    return any(
        record is not None and record.kind in TWICE and record.end - record.start == size
        for record in (before, after)
    )


def is_copy(state: AggregatorState, entry: Entry) -> bool:
    """Whether it is the second one of an entry that is written twice."""
    match entry:
        case SourceJoined():
            return entry.source < len(state.data.sources)
        case OpenAttempt():
            return entry.attempt <= state.data.attempt
        case EndWithdrawn():
            return state.data.ended is None
        case _:
            return False


def since_snapshot(records: list[Record]) -> list[Record]:
    """What counts of the oldest segment that is left: before its snapshot lie copies of entries
    whose own predecessors are gone."""
    first = next((i for i, record in enumerate(records) if record.kind == EntryKind.SNAPSHOT), 0)
    return records[first:]


def read_whole(path: Path, limit: int | None, kinds: frozenset[int]) -> Segment:
    """A segment up to ``limit``. Raises ``OSError``."""
    fd = open_segment(path)
    try:
        size = os.fstat(fd).st_size
        data = read_at(fd, 0, size if limit is None else min(size, limit))
    finally:
        os.close(fd)
    found = scan(data, kinds=kinds)
    return Segment(found.records, found.valid_bytes, found.damaged)
