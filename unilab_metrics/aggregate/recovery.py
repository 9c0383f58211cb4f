"""What an earlier life of the aggregator left: fold its wal, find the end of its history."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from unilab_metrics.aggregate.entries import EntryKind, decode_entry
from unilab_metrics.aggregate.state import AggregatorState, Publication
from unilab_metrics.storage.records import Record, scan
from unilab_metrics.storage.segments import (
    KIND_SEGMENT_HEADER,
    list_segments,
    open_segment,
    read_at,
    read_segment_header,
)
from unilab_schema.codec import FrameDecodeError, RecordKind

# A batch entry holds whole records, so a scan must not take the inner ones for outer ones.
_WAL_KINDS = frozenset([KIND_SEGMENT_HEADER, *EntryKind])
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
    path: Path
    records: list[Record]
    valid_bytes: int
    damaged: int


def recover(bus_dir: Path) -> Recovered:
    """Read the journal in ``bus_dir``. Raises ``UnknownVersionError``, ``DamagedFileError``
    (a header that cannot be passed over) and ``OSError``; changes nothing."""
    wal_paths = list_segments(bus_dir, "wal")
    history_paths = list_segments(bus_dir, "history")
    epoch_counter = 0
    journal_id: bytes | None = None
    for path in (*wal_paths, *history_paths):
        header = read_segment_header(path)
        if header is not None:
            journal_id = header.epoch.journal
        epoch_counter = max(epoch_counter, int(path.name.split("-")[1]))
    end = _end_of_history(history_paths)
    state, missing, damaged, wal_valid_bytes = _fold(wal_paths, end.last)
    if end.last >= state.data.next_update:
        if damaged:
            # The fold published less than the first time; what is in the history stays.
            state.data.next_update = end.last + 1
        else:
            # The wal is written first, so this is history whose wal was lost with the node.
            end = _end_of_history(history_paths, up_to=state.data.next_update - 1)
    return Recovered(
        state,
        journal_id,
        epoch_counter,
        damaged,
        wal_paths,
        wal_paths[-1].name if wal_paths else "",
        wal_valid_bytes,
        end.segments,
        end.name,
        end.valid_bytes,
        end.last,
        history_paths[len(end.segments) :],
        [p for p in missing if p.sequence > end.last],
    )


def _fold(
    paths: list[Path], history_last: int
) -> tuple[AggregatorState, list[Publication], int, int]:
    state = AggregatorState()
    missing: list[Publication] = []
    damaged = 0
    valid_bytes = 0
    for segment in _segments(paths, _WAL_KINDS):
        valid_bytes = segment.valid_bytes
        damaged += segment.damaged
        for record in segment.records:
            if record.kind == KIND_SEGMENT_HEADER:
                continue
            if record.kind == EntryKind.SNAPSHOT:
                try:
                    state = AggregatorState(bytes(record.payload))
                except msgspec.MsgspecError:
                    damaged += 1
                else:
                    missing = [p for p in missing if p.sequence < state.data.next_update]
                continue
            try:
                published = state.handle(decode_entry(record.kind, record.payload))
            except (FrameDecodeError, IndexError):
                damaged += 1
                continue
            missing += [p for p in published if p.sequence > history_last]
    return state, missing, damaged, valid_bytes


class _HistoryEnd(NamedTuple):
    segments: list[_Known]
    name: str
    valid_bytes: int
    last: int


def _end_of_history(paths: list[Path], up_to: int | None = None) -> _HistoryEnd:
    """The last entry that counts. Only the newest segments are read whole: a week is gigabytes."""
    limits = _valid_lengths(paths)
    name, valid_bytes, last = "", 0, 0
    for path in reversed(paths):
        segment = _read(path, limits.get(path.name), HISTORY_KINDS)
        name, valid_bytes = path.name, segment.valid_bytes
        for record in segment.records:
            if up_to is not None and record.sequence > up_to:
                valid_bytes = record.start
                break
            last = max(last, record.sequence)
        if last:
            break
    if not paths:
        return _HistoryEnd([], name, valid_bytes, last)
    counted = paths
    if up_to is not None:
        counted = paths[: [path.name for path in paths].index(name) + 1]
    elif name != paths[-1].name:
        # Only headers and layouts came after; the chain goes on from the newest segment.
        limits[name] = valid_bytes
        name = paths[-1].name
        valid_bytes = _read(paths[-1], None, HISTORY_KINDS).valid_bytes
    limits[name] = valid_bytes
    segments: list[_Known] = [
        (path, _first_sequence(path) or last + 1, limits.get(path.name)) for path in counted
    ]
    return _HistoryEnd(segments, name, valid_bytes, last)


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


def _segments(paths: list[Path], kinds: frozenset[int]) -> Iterator[_Segment]:
    """Each segment's records up to the length that its successor's header names."""
    limits = _valid_lengths(paths)
    for path in paths:
        yield _read(path, limits.get(path.name), kinds)


def _valid_lengths(paths: list[Path]) -> dict[str, int]:
    headers = (read_segment_header(path) for path in paths)
    return {h.previous_name: h.previous_valid_bytes for h in headers if h is not None}


def _read(path: Path, limit: int | None, kinds: frozenset[int]) -> _Segment:
    fd = open_segment(path)
    try:
        size = os.fstat(fd).st_size
        data = read_at(fd, 0, size if limit is None else min(size, limit))
    finally:
        os.close(fd)
    found = scan(data, kinds=kinds)
    return _Segment(path, found.records, found.valid_bytes, len(found.damaged))
