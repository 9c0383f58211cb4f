"""What an earlier life of the aggregator left: fold its wal, find the end of its history."""

from __future__ import annotations

import os
from contextlib import suppress
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
from unilab_metrics.errors import DamagedFileError
from unilab_metrics.storage.records import Record, scan
from unilab_metrics.storage.segments import (
    KIND_SEGMENT_HEADER,
    SegmentHeader,
    list_segments,
    open_segment,
    read_at,
    read_segment_header,
)
from unilab_schema.codec import FrameDecodeError, RecordKind, decode_payload

# A batch entry holds whole records, so a scan must not take the inner ones for outer ones.
WAL_KINDS = frozenset([KIND_SEGMENT_HEADER, *EntryKind])
HISTORY_KINDS = frozenset([KIND_SEGMENT_HEADER, *(k for k in RecordKind if 32 <= k < 64)])
_PEEK_BYTES = 256 * 1024

_Known = tuple[Path, int, int | None]


class Recovered(NamedTuple):
    """The state after the last commit, and where the new epoch continues.

    ``missing``: publications of the fold that the history does not hold. ``*_valid_bytes``:
    length of the last segment that counts; what lies beyond is a torn tail, or a history
    entry whose wal record was never written. ``beyond_wal``: history segments of which
    nothing counts.
    """

    state: AggregatorState
    journal_id: bytes | None
    epoch_counter: int
    damaged_records: int
    wal_segments: list[Path]
    wal_name: str
    wal_valid_bytes: int
    history_segments: list[_Known]
    history_name: str
    history_valid_bytes: int
    last_update: int
    beyond_wal: list[Path]
    missing: list[Publication]


class _Segment(NamedTuple):
    records: list[Record]
    valid_bytes: int
    damaged: int


def recover(bus_dir: Path) -> Recovered:
    """Read the journal in ``bus_dir``. Raises ``UnknownVersionError`` and ``OSError``; changes
    nothing."""
    wal_paths = list_segments(bus_dir, "wal")
    history_paths = list_segments(bus_dir, "history")
    headers = _headers([*wal_paths, *history_paths])
    limits = {h.previous_name: h.previous_valid_bytes for h in headers}
    counters = (int(path.name.split("-")[1]) for path in (*wal_paths, *history_paths))
    end = _end_of_history(history_paths, limits)
    fold = _fold(wal_paths, limits, end.last)
    state = fold.state
    if end.last >= state.data.next_update:
        if fold.damaged or not fold.name:
            # The fold published less than the first time, or somebody has removed the wal, whose
            # header is on the disk before anything is accepted; what is in the history stays.
            state.data.next_update = end.last + 1
        else:
            # The wal is written first, so this is history whose wal was lost with the node.
            end = _end_of_history(history_paths, limits, up_to=state.data.next_update - 1)
    if (fold.damaged or not fold.name) and end.sealed is not None:
        _pass_over_sealed(state, *end.sealed)
    return Recovered(
        state,
        headers[-1].epoch.journal if headers else None,
        max(counters, default=0),
        fold.damaged,
        wal_paths,
        fold.name,
        fold.valid_bytes,
        end.segments,
        end.name,
        end.valid_bytes,
        end.last,
        history_paths[len(end.segments) :],
        [p for p in fold.missing if p.sequence > end.last],
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


def _headers(paths: list[Path]) -> list[SegmentHeader]:
    """The headers that can be read. A damaged one costs what it says of its predecessor's
    length, which then counts up to its own last good record."""
    found: list[SegmentHeader] = []
    for path in paths:
        with suppress(DamagedFileError):
            header = read_segment_header(path)
            if header is not None:
                found.append(header)
    return found


def _pass_over_sealed(state: AggregatorState, attempt: int, iteration: int) -> None:
    """The history holds the iteration, but the decision that sealed it could not be read."""
    if attempt > state.data.attempt:
        state.handle(OpenAttempt(attempt, state.data.opened_unix_ns))
    if attempt == state.data.attempt:
        state.data.windows.close(iteration, supplement=False)


class _Fold(NamedTuple):
    state: AggregatorState
    missing: list[Publication]
    damaged: int
    name: str
    valid_bytes: int


def _fold(paths: list[Path], limits: dict[str, int], history_last: int) -> _Fold:
    state = AggregatorState()
    missing: list[Publication] = []
    damaged = 0
    name, valid_bytes = "", 0
    for path in paths:
        segment = _read(path, limits.get(path.name), WAL_KINDS)
        if segment.valid_bytes:
            name, valid_bytes = path.name, segment.valid_bytes
        damaged += segment.damaged
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
    return _Fold(state, missing, damaged, name, valid_bytes)


class _HistoryEnd(NamedTuple):
    """``sealed``: attempt and iteration of the last update."""

    segments: list[_Known]
    name: str
    valid_bytes: int
    last: int
    sealed: tuple[int, int] | None


def _end_of_history(
    paths: list[Path], limits: dict[str, int], up_to: int | None = None
) -> _HistoryEnd:
    """The last entry that counts. Only the newest segments are read whole: a week is gigabytes."""
    limits = dict(limits)
    name, valid_bytes, last = "", 0, 0
    sealed: tuple[int, int] | None = None
    for path in reversed(paths):
        segment = _read(path, limits.get(path.name), HISTORY_KINDS)
        reached = segment.valid_bytes
        for record in segment.records:
            if up_to is not None and record.sequence > up_to:
                reached = record.start
                break
            last = max(last, record.sequence)
            sealed = _sealed(record) or sealed
        # The chain goes on from the newest segment of which anything counts; after a cut, from
        # the one that holds the last entry, because only one length can be told.
        if reached and (not name or up_to is not None):
            name, valid_bytes = path.name, reached
        limits[path.name] = reached
        if last:
            break
    if up_to is not None and name:
        paths = paths[: [path.name for path in paths].index(name) + 1]
    segments: list[_Known] = [
        (path, _first_sequence(path) or last + 1, limits.get(path.name)) for path in paths
    ]
    return _HistoryEnd(segments, name, valid_bytes, last, sealed)


def _sealed(record: Record) -> tuple[int, int] | None:
    if record.kind != RecordKind.UPDATE:
        return None
    try:
        update = decode_payload(record.kind, record.payload)
    except FrameDecodeError:
        return None
    return update.attempt, update.iteration


def _first_sequence(path: Path) -> int:
    fd = open_segment(path)
    try:
        size = _PEEK_BYTES
        while True:
            data = read_at(fd, 0, size)
            found = scan(data, kinds=HISTORY_KINDS, complete=False)
            first = next((r.sequence for r in found.records if r.sequence), 0)
            if first or len(data) < size:
                return first
            size *= 4
    finally:
        os.close(fd)


def _read(path: Path, limit: int | None, kinds: frozenset[int]) -> _Segment:
    fd = open_segment(path)
    try:
        size = os.fstat(fd).st_size
        data = read_at(fd, 0, size if limit is None else min(size, limit))
    finally:
        os.close(fd)
    found = scan(data, kinds=kinds)
    return _Segment(found.records, found.valid_bytes, len(found.damaged))
