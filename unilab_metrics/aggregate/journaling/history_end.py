"""Where an earlier life's history ends, what is in it, and where it has holes. Reads only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from unilab_metrics.aggregate.journaling.wal_folding import Segment, read_whole
from unilab_metrics.storage.records import scan
from unilab_metrics.storage.segments import KIND_SEGMENT_HEADER, open_segment, read_at
from unilab_schema.codec import FrameDecodeError, RecordKind, decode_payload
from unilab_schema.updates import HistoryEntry, Supplement, Update

HISTORY_KINDS = frozenset([KIND_SEGMENT_HEADER, *(k for k in RecordKind if 32 <= k < 64)])
_PEEK_BYTES = 8 * 1024

KnownSegment = tuple[Path, int, int | None]
"""A file, the first update sequence that it may hold, and how much of it counts."""


class HistoryEnd(NamedTuple):
    """``name`` and ``valid_bytes``: where the chain goes on. ``last``: the last entry. ``read``:
    what was read whole to see that, by its path."""

    segments: list[KnownSegment]
    name: str
    valid_bytes: int
    last: int
    read: dict[Path, Segment]


class HistoryItem(NamedTuple):
    """An entry with its tags."""

    sequence: int
    entry: HistoryEntry
    tags: tuple[str, ...]


def end_of_history(
    paths: list[Path], limits: dict[str, int], up_to: int | None = None
) -> HistoryEnd:
    """The last entry that counts, not beyond ``up_to``. Only the newest segments are read whole:
    a week is gigabytes. Raises ``OSError``."""
    limits = dict(limits)
    name, valid_bytes, last = "", 0, 0
    read: dict[Path, Segment] = {}
    for path in reversed(paths):
        segment = read[path] = read_whole(path, limits.get(path.name), HISTORY_KINDS)
        reached = segment.valid_bytes
        counted = 0
        for record in segment.records:
            if up_to is not None and record.sequence > up_to:
                # Not to where this one begins: what lies between them may be damaged.
                reached = counted
                break
            last = max(last, record.sequence)
            counted = record.end if record.sequence else counted
        # The chain goes on from the newest segment of which anything counts; after a cut, from
        # the one that holds the last entry, because only one length can be told.
        if reached and (not name or up_to is not None):
            name, valid_bytes = path.name, reached
        limits[path.name] = reached
        if last:
            break
    if up_to is not None and not last:
        name, valid_bytes, paths = "", 0, []
    if up_to is not None and name:
        paths = paths[: [path.name for path in paths].index(name) + 1]
    segments: list[KnownSegment] = [
        (path, _first_sequence(path) or last + 1, limits.get(path.name)) for path in paths
    ]
    return HistoryEnd(segments, name, valid_bytes, last, read)


def items_since(segments: list[KnownSegment], update: int) -> Iterator[HistoryItem]:
    """Every entry from ``update`` on that can be read, in order. Raises ``OSError``."""
    for path, _, limit in _since(segments, update):
        layouts: dict[int, tuple[str, ...]] = {}
        for record in read_whole(path, limit, HISTORY_KINDS).records:
            if record.kind == KIND_SEGMENT_HEADER or 0 < record.sequence < update:
                continue
            try:
                entry = decode_payload(record.kind, record.payload)
            except FrameDecodeError:
                continue
            if record.kind == RecordKind.UPDATE_LAYOUT:
                layouts[entry.layout] = entry.tags
                continue
            tags: tuple[str, ...] = ()
            if isinstance(entry, Update | Supplement):
                tags = layouts.get(entry.layout, ())
                if len(entry.values) != 8 * len(tags):
                    continue
            yield HistoryItem(record.sequence, entry, tags)


def first_hole(end: HistoryEnd, update: int) -> int:
    """The first entry from ``update`` on that is missing or damaged, or lies behind a damaged
    header or layout, though later ones are there; 0 if there is none. Raises ``OSError``."""
    segments = end.segments
    since = _since(segments, update)
    before = segments[: len(segments) - len(since)]
    expected = max(_last_of(before), default=0) + 1
    for path, _, limit in since:
        segment = end.read.get(path)
        if segment is None or segment.valid_bytes != limit:
            segment = read_whole(path, limit, HISTORY_KINDS)
        broken_at = [damage.start for damage in segment.damaged]
        for record in segment.records:
            while broken_at and record.start > broken_at[0]:
                del broken_at[0]
                if expected >= update:
                    return expected
            if not record.sequence:
                continue
            if update <= expected < record.sequence:
                return expected
            expected = record.sequence + 1
    return 0


def _last_of(segments: list[KnownSegment]) -> Iterator[int]:
    """The newest entry of the newest segments, at most until one has any."""
    for path, _, limit in reversed(segments):
        records = read_whole(path, limit, HISTORY_KINDS).records
        last = max((record.sequence for record in records), default=0)
        if last:
            yield last
            return


def _since(segments: list[KnownSegment], update: int) -> list[KnownSegment]:
    """The segments that may hold it and what follows."""
    start = max((i for i, known in enumerate(segments) if known[1] <= update), default=0)
    return segments[start:]


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
