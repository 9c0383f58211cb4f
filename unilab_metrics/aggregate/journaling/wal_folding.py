"""Folding a wal as it lies there: every good entry once, damage counted. Reads only."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from unilab_metrics.aggregate.folding.entries import (
    EndWithdrawn,
    Entry,
    EntryKind,
    OpenAttempt,
    SourceJoined,
    decode_entry,
)
from unilab_metrics.aggregate.folding.state import AggregatorState, Publication
from unilab_metrics.storage.records import Record, scan
from unilab_metrics.storage.segments import KIND_SEGMENT_HEADER, open_segment, read_at

# A batch entry holds whole records, so a scan must not take the inner ones for outer ones.
WAL_KINDS = frozenset([KIND_SEGMENT_HEADER, *EntryKind])


class Segment(NamedTuple):
    """What is good of a segment up to the length that counts; ``damaged``: where it is not."""

    records: list[Record]
    valid_bytes: int
    damaged: list[int]


class Fold(NamedTuple):
    """``missing``: publications beyond the update that was asked for. ``name``, ``valid_bytes``:
    of the last segment of which anything is good; ``lengths``: of all. ``first_update``: from
    which on updates are made again. ``snapshots``: segments whose snapshot could be read."""

    state: AggregatorState
    missing: list[Publication]
    damaged: int
    name: str
    lengths: dict[str, int]
    first_update: int
    snapshots: frozenset[str]

    @property
    def valid_bytes(self) -> int:
        """How much of that one."""
        return self.lengths.get(self.name, 0)


def fold_wal(paths: list[Path], limits: dict[str, int], history_last: int) -> Fold:
    """Fold the segments. ``limits``: lengths that count, where a successor says it.
    ``history_last``: publications up to this one are not kept. Raises ``OSError``."""
    state = AggregatorState()
    missing: list[Publication] = []
    damaged, first_update = 0, 1
    lengths: dict[str, int] = {}
    snapshots: set[str] = set()
    for path in paths:
        segment = read_whole(path, limits.get(path.name), WAL_KINDS)
        if segment.valid_bytes:
            lengths[path.name] = segment.valid_bytes
        damaged += len(segment.damaged)
        records = segment.records
        for record in since_snapshot(records) if path == paths[0] else records:
            if record.kind == KIND_SEGMENT_HEADER:
                continue
            if record.kind == EntryKind.SNAPSHOT:
                try:
                    state = AggregatorState(bytes(record.payload))
                except Exception:  # noqa: BLE001 - a state that makes no sense is damage too
                    damaged += 1
                else:
                    if not snapshots and path == paths[0]:
                        first_update = state.data.next_update
                    snapshots.add(path.name)
                    missing = [p for p in missing if p.sequence < state.data.next_update]
                continue
            try:
                entry = decode_entry(record.kind, record.payload)
                if is_copy(state, entry):
                    continue
                published = state.handle(entry)
            except Exception:  # noqa: BLE001 - an entry whose handling raises costs itself only
                damaged += 1
                continue
            missing += [p for p in published if p.sequence > history_last]
    name = next(reversed(lengths), "")
    return Fold(state, missing, damaged, name, lengths, first_update, frozenset(snapshots))


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
    return Segment(found.records, found.valid_bytes, [damage.start for damage in found.damaged])
