"""Answers to subscribers: history after a cursor, and the newest value of every tag."""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from pathlib import Path
from typing import NamedTuple

from unilab_metrics.aggregate.folding.packed import pack_integers, pack_values
from unilab_metrics.aggregate.folding.state import Latest
from unilab_metrics.aggregate.journaling.history_tail import HistorySegment, TailRecord
from unilab_metrics.aggregate.journaling.journal import Journal
from unilab_metrics.aggregate.journaling.recovery import HISTORY_KINDS
from unilab_metrics.aggregate.journaling.segment_layouts import OldLayouts
from unilab_metrics.storage.chosen_records import ChosenRecords
from unilab_metrics.storage.records import (
    HEADER,
    HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    Record,
    Scan,
    encode_record,
    scan,
)
from unilab_metrics.storage.segment_map import SegmentMap
from unilab_metrics.storage.segments import open_segment, read_at
from unilab_schema.codec import (
    MAX_MESSAGE_BYTES,
    FrameDecodeError,
    RecordKind,
    decode_payload,
    encode_payload,
)
from unilab_schema.layout_marks import MOST_MARKS, LayoutMarks
from unilab_schema.requests import Fetch, Snapshot, Updates
from unilab_schema.updates import UpdateLayout

REPLY_BYTES = 512 * 1024
"""A reply ends before it grows beyond this; the subscriber asks again from its cursor."""
MAX_REPLY_BYTES = MAX_MESSAGE_BYTES - 64 * 1024
"""With the layouts; a message beyond its limit would cut the connection."""
_MAX_RECORDS = 10_000
_LOOK_RECORDS = 512
_LOOK_BYTES = 128 * 1024
_MOST_READ_BYTES = HEADER_BYTES + MAX_PAYLOAD_BYTES
_READ_BYTES = 1024 * 1024
_MAX_PLACES = 64
_MAX_MAPS = 4
_LAYOUT_KINDS = frozenset([RecordKind.UPDATE, RecordKind.SUPPLEMENT])
_BUDGET_S = 0.008
"""For choosing among records: nothing else is done meanwhile."""


class _Place(NamedTuple):
    """Where in the files a subscriber's next record lies."""

    segment: int
    offset: int


class _Part(NamedTuple):
    """``last``: up to there the records were looked at."""

    records: list[TailRecord]
    last: int


class Server:
    """Reads what the journal has committed. Owned by the aggregator's main thread."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._places: dict[int, _Place] = {}
        self._layouts = OldLayouts()
        self._maps: dict[Path, SegmentMap] = {}
        self._renewals = 0
        self._marks = LayoutMarks()

    def updates(self, fetch: Fetch) -> Updates:
        """History records after the cursor, verbatim, and the layouts that they refer to; or
        what is wanted of them, as far as a few milliseconds allow."""
        limit = max(1, min(fetch.limit, _MAX_RECORDS))
        chosen = ChosenRecords(fetch.tags, fetch.kinds)
        if chosen.is_all:
            records, layouts = _within_reply(self._records(fetch.after, limit))
            last = records[-1].sequence if records else fetch.after
        else:
            part = self._part(fetch.after, limit, chosen)
            records, layouts = _within_reply(part.records)
            last = part.last if len(records) == len(part.records) else records[-1].sequence
        return self._reply(fetch, last, layouts, records)

    def _reply(
        self,
        fetch: Fetch,
        last: int,
        layouts: dict[int, tuple[str, ...]],
        records: list[TailRecord],
    ) -> Updates:
        known = frozenset(fetch.known[:MOST_MARKS])
        return Updates(
            fetch.request,
            self._journal.epoch,
            last,
            tuple(
                UpdateLayout(layout, tags)
                for layout, tags in sorted(layouts.items())
                if not known or self._marks.of(layout, tags) not in known
            ),
            b"".join(record.data for record in records),
        )

    def snapshot(self, request: int) -> Snapshot:
        """The newest value of every tag that an update has carried."""
        latest = _cut(self._journal.state.latest())
        return Snapshot(
            request,
            self._journal.epoch,
            self._journal.committed_update,
            latest.tags,
            pack_values(latest.values),
            pack_integers(latest.updates),
        )

    def _records(self, after: int, limit: int, read_bytes: int = _READ_BYTES) -> list[TailRecord]:
        journal = self._journal
        oldest = journal.tail[0].sequence if journal.tail else journal.committed_update + 1
        if after + 1 >= oldest:
            return self._from_tail(after, limit)
        return self._from_files(after, limit, read_bytes)

    def _part(self, after: int, limit: int, chosen: ChosenRecords) -> _Part:
        until_s = time.monotonic() + _BUDGET_S
        taken: list[TailRecord] = []
        size = 0
        last = after
        while True:
            # Of very large records one look brings only a few.
            found = self._records(last, _LOOK_RECORDS, _LOOK_BYTES)
            for record in found:
                last = record.sequence
                cut = _chosen(record, chosen)
                if cut is not None:
                    taken.append(cut)
                    size += len(cut.data)
                if len(taken) >= limit or size >= REPLY_BYTES:
                    return _Part(taken, last)
            if not found or time.monotonic() >= until_s:
                return _Part(taken, last)

    def _from_tail(self, after: int, limit: int) -> list[TailRecord]:
        tail = self._journal.tail
        if not tail:
            return []
        # Sequences in the tail have no holes, so the position follows from the cursor.
        taken: list[TailRecord] = []
        size = 0
        for at in range(max(after + 1 - tail[0].sequence, 0), len(tail)):
            record = tail[at]
            size += len(record.data)
            is_full = taken and (size > REPLY_BYTES or len(taken) >= limit)
            if is_full or record.sequence > self._journal.committed_update:
                break
            taken.append(record)
        return taken

    def _from_files(self, after: int, limit: int, read_bytes: int) -> list[TailRecord]:
        segments = self._journal.segments
        if self._renewals != self._journal.renewals:
            self._renewals = self._journal.renewals
            self._places.clear()
            self._layouts.clear()
            self._maps.clear()
        place = self._places.pop(after, None) or self._seek(after + 1)
        taken: list[TailRecord] = []
        size = 0
        while place.segment < len(segments):
            data, found, is_whole = _read(segments[place.segment], place.offset, read_bytes)
            layouts = self._layouts.of(segments[place.segment].path)
            layouts.note(place.offset, found.records, found.valid_bytes)
            for record in found.records:
                if record.sequence > self._journal.committed_update:
                    return taken
                if record.sequence <= after:
                    continue
                if len(taken) >= limit or size >= REPLY_BYTES:
                    self._remember(taken[-1].sequence, place.segment, place.offset + record.start)
                    return taken
                raw = data[record.start : record.end]
                layout = _layout_of(record)
                tags = layouts.tags(layout, place.offset + record.start) if layout >= 0 else ()
                if tags is None:
                    # Its layout is damaged: nobody can read it any more.
                    continue
                taken.append(TailRecord(record.sequence, layout, raw, tags))
                size += len(raw)
            if is_whole or found.valid_bytes == 0:
                place = _Place(place.segment + 1, 0)
            else:
                place = _Place(place.segment, place.offset + found.valid_bytes)
        return taken

    def _seek(self, sequence: int) -> _Place:
        segments = self._journal.segments
        at = max(bisect_right([segment.first for segment in segments], sequence) - 1, 0)
        if at >= len(segments):
            return _Place(0, 0)
        path, _first, limit = segments[at]
        found = self._maps.pop(path, None)
        if found is None:
            while len(self._maps) >= _MAX_MAPS:
                del self._maps[next(iter(self._maps))]
            kept = RecordKind.UPDATE_LAYOUT
            found = SegmentMap(path, kinds=HISTORY_KINDS, kept_kind=kept, limit=limit)
        self._maps[path] = found
        return _Place(at, found.seek(sequence))

    def _remember(self, after: int, segment: int, offset: int) -> None:
        if len(self._places) >= _MAX_PLACES:
            self._places.clear()
        self._places[after] = _Place(segment, offset)


def _cut(latest: Latest) -> Latest:
    """As many tags as fit one message; the rest is seen with the next update."""
    size = 0
    for count, tag in enumerate(latest.tags):
        size += (len(tag) if tag.isascii() else 4 * len(tag)) + 5 + 16
        if size > MAX_REPLY_BYTES:
            return Latest(latest.tags[:count], latest.values[:count], latest.updates[:count])
    return latest


def _within_reply(
    records: list[TailRecord],
) -> tuple[list[TailRecord], dict[int, tuple[str, ...]]]:
    """As many of the records as fit one message together with their layouts."""
    layouts: dict[int, tuple[str, ...]] = {}
    size = 0
    for at, record in enumerate(records):
        size += len(record.data)
        if record.layout >= 0:
            known = layouts.get(record.layout)
            if known is None:
                size += sum(
                    4 * len(tag) + 5 if not tag.isascii() else len(tag) + 5 for tag in record.tags
                )
            if at and (size > MAX_REPLY_BYTES or (known is not None and known != record.tags)):
                return records[:at], layouts
            layouts[record.layout] = record.tags
    return records, layouts


def _read(segment: HistorySegment, offset: int, read_bytes: int) -> tuple[bytes, Scan, bool]:
    """A chunk of a segment, its records, and whether the segment ends with it."""
    fd = open_segment(segment.path)
    try:
        size = os.fstat(fd).st_size
        if segment.valid_bytes is not None:
            size = min(size, segment.valid_bytes)
        while True:
            data = read_at(fd, offset, max(min(read_bytes, size - offset), 0))
            is_whole = offset + len(data) >= size
            found = scan(data, kinds=HISTORY_KINDS, complete=is_whole)
            if found.valid_bytes or is_whole or read_bytes >= _MOST_READ_BYTES:
                return data, found, is_whole
            # The first record is larger.
            read_bytes = min(8 * read_bytes, _MOST_READ_BYTES)
    finally:
        os.close(fd)


def _chosen(record: TailRecord, chosen: ChosenRecords) -> TailRecord | None:
    """What is wanted of it, as a record of its own."""
    kind = HEADER.unpack_from(record.data)[2]
    if not chosen.wants(kind):
        return None
    try:
        cut = chosen.cut(decode_payload(kind, record.data[HEADER_BYTES:]), record.tags)
    except FrameDecodeError:
        return None
    if cut is None:
        return None
    entry, tags = cut
    data = encode_record(kind, record.sequence, encode_payload(entry))
    return TailRecord(record.sequence, record.layout, data, tags)


def _layout_of(record: Record) -> int:
    if record.kind not in _LAYOUT_KINDS:
        return -1
    return decode_payload(record.kind, record.payload).layout
