"""Any stretch of a run's past, from its files: what a live aggregator answers, without one."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

from unilab_metrics.storage.block_files import BlockFiles
from unilab_metrics.storage.chosen_records import ChosenRecords
from unilab_metrics.storage.records import HEADER_BYTES, MAX_PAYLOAD_BYTES, Scan, scan
from unilab_metrics.storage.segment_map import SegmentMap
from unilab_metrics.storage.segments import counter_of, open_segment, read_at
from unilab_metrics.subscribe.history import HISTORY_KINDS, HISTORY_PREFIX
from unilab_metrics.subscribe.history_record import HistoryRecord, decode_entry
from unilab_metrics.subscribe.segment_chain import Beginning, Link, SegmentChain
from unilab_schema.codec import FrameDecodeError, RecordKind
from unilab_schema.control import Epoch
from unilab_schema.requests import Blocks

BUDGET_S = 0.05
"""Of one answer: the live updates wait for as long."""
_STRETCH_BYTES = 512 * 1024
_MOST_RECORDS = 10_000
_READ_BYTES = 512 * 1024
_MOST_MAPS = 8
_NOBODY = Epoch(b"", 0)


class Stretch(NamedTuple):
    """Entries of the history in order. ``last``: all up to this update sequence is told, where
    nothing is damaged; the ``after`` that was asked for where there is no more."""

    records: tuple[HistoryRecord, ...]
    last: int


class _Segment(NamedTuple):
    map: SegmentMap
    layouts: dict[int, tuple[str, ...]]
    read_layouts: set[int]


class PastFiles:
    """The files of one run, whoever writes them. Owned by one thread; nothing stays open."""

    def __init__(self, bus_dir: Path) -> None:
        self._chain = SegmentChain(bus_dir, HISTORY_PREFIX)
        self._blocks = BlockFiles(bus_dir)
        self._firsts: dict[Path, int] = {}
        self._segments: OrderedDict[Path, _Segment] = OrderedDict()
        self._has_looked = False

    def bins(self, tags: tuple[str, ...], after: int) -> Blocks:
        """The whole blocks behind ``after``, as of a live run. Raises as :meth:`stretch`
        does."""
        if not self._has_looked:
            # Nobody writes them any more, or if somebody does, the records have it all.
            self._blocks.look()
            self._blocks.keep(self._begins(), self.last())
            self._has_looked = True
        found = self._blocks.read(tags, after, budget_s=BUDGET_S)
        return Blocks(0, _NOBODY, found.blocks, found.complete, found.first, found.last)

    def stretch(
        self, after: int, limit: int, tags: tuple[str, ...] = (), kinds: tuple[int, ...] = ()
    ) -> Stretch:
        """The entries behind ``after``, at most ``limit`` and as many as one message would hold;
        of ``tags`` and ``kinds`` as in ``Fetch``. Raises ``UnknownVersionError`` and
        ``OSError``."""
        chosen = ChosenRecords(tags, kinds)
        until_s = time.monotonic() + BUDGET_S
        links = self._chain.links()
        limit = max(1, min(limit, _MOST_RECORDS))
        taken: list[HistoryRecord] = []
        size = 0
        last = after
        for link in links[self._place(links, after + 1) :]:
            segment = self._segment(link)
            offset = segment.map.seek(after + 1)
            self._read_layouts(segment)
            while True:
                found, is_end = _read(link, offset)
                for record in found.records:
                    if record.sequence <= last and record.kind != RecordKind.UPDATE_LAYOUT:
                        continue
                    if record.kind != RecordKind.UPDATE_LAYOUT:
                        if len(taken) >= limit or size >= _STRETCH_BYTES:
                            return Stretch(tuple(taken), last)
                        last = record.sequence
                        if not chosen.wants(record.kind):
                            continue
                    try:
                        entry = decode_entry(record, segment.layouts)
                    except FrameDecodeError:
                        continue
                    if entry is not None and not chosen.is_all:
                        entry = _cut(entry, chosen)
                    if entry is not None:
                        taken.append(entry)
                        size += (
                            record.end - record.start
                            if chosen.is_all
                            else HEADER_BYTES + 8 * len(entry.tags)
                        )
                if not chosen.is_all and last > after and time.monotonic() >= until_s:
                    return Stretch(tuple(taken), last)
                offset += found.valid_bytes
                if is_end or not found.valid_bytes:
                    break
        return Stretch(tuple(taken), last)

    def _begins(self) -> list[tuple[int, int]]:
        """Each epoch of the history, and its first entry."""
        begins: dict[int, int] = {}
        for link in self._chain.links():
            counter = counter_of(link.path)
            if counter not in begins and (first := self._first(link)):
                begins[counter] = first
        return list(begins.items())

    def last(self) -> int:
        """The newest update sequence, 0 without any. Raises as :meth:`stretch` does."""
        for link in reversed(self._chain.links()):
            segment = self._segment(link)
            if not segment.map.first():
                continue
            offset, last = segment.map.seek(1 << 62), 0
            while True:
                found, is_end = _read(link, offset)
                last = max([last, *(record.sequence for record in found.records)])
                offset += found.valid_bytes
                if is_end or not found.valid_bytes:
                    break
            if last:
                return last
        return 0

    def beginning(self, sequence: int) -> Beginning | None:
        """Where to begin reading the entries from ``sequence`` on; ``None`` without a history.
        Raises as :meth:`stretch` does."""
        links = self._chain.links()
        if not links:
            return None
        segment = self._segment(links[self._place(links, sequence)])
        offset = segment.map.seek(sequence)
        self._read_layouts(segment)
        return Beginning(segment.map.path, offset, dict(segment.layouts))

    def size_bytes(self) -> int:
        """Of all that counts. Raises ``OSError``."""
        return sum(_size(link) for link in self._chain.links())

    def sequence_near_end(self, size_bytes: int) -> int:
        """The first update sequence of the last ``size_bytes``, 0 if there are not so many or
        nothing can be read there. Raises as :meth:`stretch` does."""
        for link in reversed(self._chain.links()):
            size = _size(link)
            if size_bytes <= size:
                found, _is_end = _read(link, size - size_bytes)
                return next((one.sequence for one in found.records if one.sequence), 0)
            size_bytes -= size
        return 0

    def _place(self, links: list[Link], sequence: int) -> int:
        """Which segment the entry lies in, if there is one."""
        low: int = 0
        high: int = len(links)
        while high - low > 1:
            middle = (low + high) // 2
            # One in which nothing can be read says nothing.
            places: tuple[int, ...] = (*range(middle, high), *range(low + 1, middle))
            at: int | None = next((at for at in places if self._first(links[at])), None)
            if at is None:
                break
            if self._first(links[at]) <= sequence:
                low = at
            else:
                high = at
        return low

    def _first(self, link: Link) -> int:
        known = self._firsts.get(link.path)
        if not known:
            known = self._firsts[link.path] = self._segment(link).map.first()
        return known

    def _segment(self, link: Link) -> _Segment:
        known = self._segments.get(link.path)
        if known is None:
            layout = RecordKind.UPDATE_LAYOUT
            limit = link.limit
            made = SegmentMap(link.path, kinds=HISTORY_KINDS, kept_kind=layout, limit=limit)
            known = self._segments[link.path] = _Segment(made, {}, set())
            while len(self._segments) > _MOST_MAPS:
                self._segments.popitem(last=False)
        self._segments.move_to_end(link.path)
        return known

    @staticmethod
    def _read_layouts(segment: _Segment) -> None:
        """Those that lie before the place where the reading begins."""
        new = [offset for offset in segment.map.kept if offset not in segment.read_layouts]
        if not new:
            return
        fd = open_segment(segment.map.path)
        try:
            for offset in new:
                segment.read_layouts.add(offset)
                data = read_at(fd, offset, _READ_BYTES)
                for record in scan(data, kinds=HISTORY_KINDS).records[:1]:
                    if record.kind == RecordKind.UPDATE_LAYOUT and record.start == 0:
                        decode_entry(record, segment.layouts)
        except FrameDecodeError:
            pass
        finally:
            os.close(fd)


def _cut(record: HistoryRecord, chosen: ChosenRecords) -> HistoryRecord | None:
    cut = chosen.cut(record.entry, record.tags)
    return None if cut is None else HistoryRecord(record.sequence, *cut)


def _size(link: Link) -> int:
    size = link.path.stat().st_size
    return size if link.limit is None else min(size, link.limit)


def _read(link: Link, offset: int) -> tuple[Scan, bool]:
    """The records of a part of the segment, and whether it ends with them."""
    fd = open_segment(link.path)
    try:
        size = os.fstat(fd).st_size
        if link.limit is not None:
            size = min(size, link.limit)
        for wanted in (_READ_BYTES, HEADER_BYTES + MAX_PAYLOAD_BYTES):
            data = read_at(fd, offset, max(min(wanted, size - offset), 0))
            is_end = offset + len(data) >= size
            found = scan(data, kinds=HISTORY_KINDS, complete=is_end)
            if found.valid_bytes or is_end:
                break
    finally:
        os.close(fd)
    return found, is_end
