"""Follows the history files of a run, read-only, from a cursor of one's own.

The same reader serves a writer that follows a live run and a tool that reads an ended one.
It takes no lock and trusts nothing: what is not complete yet is read again later, what is
damaged is passed over and counted, a format that it does not know is refused.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from unilab_metrics.errors import DamagedFileError
from unilab_metrics.storage.records import (
    HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    Damage,
    Record,
    damaged_at_end,
    resume_offset,
    scan,
)
from unilab_metrics.storage.segments import (
    KIND_SEGMENT_HEADER,
    decode_segment_header,
    open_segment,
    parse_segment_name,
    read_at,
)
from unilab_metrics.subscribe.history_record import HistoryRecord, decode_entry
from unilab_metrics.subscribe.segment_chain import (
    HISTORY_KINDS,
    HISTORY_PREFIX,
    Beginning,
    Link,
    SegmentChain,
    first_sequence,
    sequences,
)
from unilab_schema.codec import FrameDecodeError, RecordKind

if TYPE_CHECKING:
    from typing_extensions import Self

CHUNK_BYTES = 1024 * 1024
_MAX_CHUNK_BYTES = HEADER_BYTES + MAX_PAYLOAD_BYTES


class HistoryReader:
    """Owned by one thread. Close it, or use it as a context manager.

    ``cursor``: the update sequence up to which everything was returned, or passed over. ``damaged``:
    stretches of bytes and records that could not be read, ``lost_entries``: sequences passed over.
    """

    def __init__(self, bus_dir: Path, after: int = 0, beginning: Beginning | None = None) -> None:
        """``after``: return only entries beyond this update sequence; ``beginning``: where."""
        self.cursor = after
        self._beginning = beginning
        self.damaged = 0
        self.lost_entries = 0
        self._chain = SegmentChain(bus_dir, HISTORY_PREFIX)
        self._segment: Path | None = None
        self._fd = -1
        self._offset: int = 0
        self._pending_base: int = 0
        self._damage_ahead: list[Damage] = []
        self._chunk_bytes = CHUNK_BYTES
        self._passed_over_at: int = -1
        self._pending: deque[Record] = deque()
        self._layouts: dict[int, tuple[str, ...]] = {}
        self._seen_header_damage = 0

    def poll(
        self,
        max_records: int = 1000,
        up_to: int | None = None,
        max_bytes: int | None = None,
    ) -> list[HistoryRecord]:
        """The next entries, in order; empty while there are none. Never waits.

        ``max_bytes``: no further entry where these have as many. ``up_to``: the last update
        sequence of this call. Raises ``UnknownVersionError`` for another version, and ``OSError``.
        """
        out: list[HistoryRecord] = []
        size, most_bytes = 0, max_bytes or sys.maxsize
        while len(out) < max_records and size < most_bytes:
            if not self._pending and not self._read_more():
                break
            while self._pending and len(out) < max_records and size < most_bytes:
                if up_to is not None and self._pending[0].sequence > up_to:
                    self._unread()
                    return out
                read = self._pending.popleft()
                record = self._decode(read)
                if record is not None:
                    out.append(record)
                    size += read.end - read.start
        return out

    def damaged_at_end(self) -> int:
        """How many whole records there are at the end that cannot be read, at least. For a
        history that is not written any more, when :meth:`poll` has returned everything: a live
        one may still get what makes its end good. Raises ``OSError``."""
        if self._fd < 0 or self._pending:
            return 0
        data = read_at(self._fd, self._offset, _MAX_CHUNK_BYTES)
        return damaged_at_end(data, scan(data, kinds=HISTORY_KINDS))

    def close(self) -> None:
        """Close the segment that is open; idempotent."""
        self._pending.clear()
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _unread(self) -> None:
        """Forget what was read ahead: an entry that may not be taken yet may still be cut off."""
        start = self._pending[0].start
        self.damaged -= sum(1 for damage in self._damage_ahead if damage.start >= start)
        self._offset = self._pending_base + start
        self._pending.clear()

    def _decode(self, record: Record) -> HistoryRecord | None:
        if record.sequence <= self.cursor:
            return None
        self.lost_entries += record.sequence - self.cursor - 1
        self.cursor = record.sequence
        try:
            return decode_entry(record, self._layouts)
        except FrameDecodeError:
            self.damaged += 1
            self.lost_entries += 1
            return None

    def _read_more(self) -> bool:
        """Put the next records into ``_pending``; False at the end of what there is."""
        while True:
            if self._segment is None and not self._open_first():
                return False
            # The bytes first, the chain second: a successor that is not there after the read
            # cannot have cut off anything that was read.
            data = read_at(self._fd, self._offset, self._chunk_bytes)
            link = self._current_link()
            if link is None:
                continue
            if link.limit is not None:
                data = data[: max(0, link.limit - self._offset)]
            if self._take(data, link):
                return True
            if len(data) == self._chunk_bytes and self._chunk_bytes < _MAX_CHUNK_BYTES:
                self._chunk_bytes = min(4 * self._chunk_bytes, _MAX_CHUNK_BYTES)
                continue
            if len(data) == self._chunk_bytes:
                # More damage than the largest record: whatever begins in it is passed over.
                self._pass_over(data)
                continue
            if link.is_last:
                if link.limit is None and os.fstat(self._fd).st_size < self._offset:
                    # Somebody has cut off what we had read; what is appended now lies before that.
                    self.damaged += 1
                    self._offset = 0
                    continue
                return False
            size = os.fstat(self._fd).st_size
            end = size if link.limit is None else min(size, link.limit)
            if len(data) < min(self._chunk_bytes, end - self._offset):
                continue  # it grew between our read and the appearance of its successor
            if data or end != (size if link.limit is None else link.limit):
                self.damaged += 1
            if not self._open_successor(link):
                return False

    def _pass_over(self, data: bytes) -> None:
        if self._passed_over_at != self._offset:
            self.damaged += 1
        self._offset += resume_offset(data)
        self._passed_over_at = self._offset

    def _take(self, data: bytes, link: Link) -> bool:
        """Scan ``data``; whether it brought us forward."""
        at_end = len(data) < self._chunk_bytes
        result = scan(data, kinds=HISTORY_KINDS, complete=at_end or len(data) == _MAX_CHUNK_BYTES)
        if not result.records:
            return False
        self._damage_ahead = result.damaged
        self.damaged += len(result.damaged)
        if result.damaged and self._passed_over_at == self._offset and not result.damaged[0].start:
            # The rest of the stretch that was counted when its beginning was passed over.
            self._damage_ahead = result.damaged[1:]
            self.damaged -= 1
        self._chunk_bytes = CHUNK_BYTES
        self._pending_base = self._offset
        self._offset += result.valid_bytes
        for record in result.records:
            # Layouts of the whole chunk first: one that lies behind its update serves it too.
            if record.kind == RecordKind.UPDATE_LAYOUT:
                self._add_layout(record)
            elif record.kind == KIND_SEGMENT_HEADER:
                self._check_header(record, link)
            else:
                self._pending.append(record)
        return True

    def _check_header(self, record: Record, link: Link) -> None:
        try:
            decode_segment_header(record.payload, link.path)
        except DamagedFileError:
            self.damaged += 1

    def _add_layout(self, record: Record) -> None:
        try:
            decode_entry(record, self._layouts)
        except FrameDecodeError:
            self.damaged += 1

    def _current_link(self) -> Link | None:
        """The link of the open segment; moves to the successor of one that no longer counts."""
        segment = self._segment
        links = self._links()
        if segment is None:
            return None
        for index, link in enumerate(links):
            if link.path == segment:
                if link.limit is not None and self._offset > link.limit:
                    self._rewind(link, links[min(index + 1, len(links) - 1)].path)
                return link
        if not links:
            return Link(segment, None, is_last=True)
        # A replaced aggregator wrote the one that we read.
        later = [i for i, link in enumerate(links) if _order(link.path) > _order(segment)]
        index = later[0] if later else len(links) - 1
        self._rewind(links[max(0, index - 1)], links[index].path, segment)
        self._open(links[index])
        return None

    def _links(self) -> list[Link]:
        links = self._chain.links()
        self.damaged += self._chain.damaged_headers - self._seen_header_damage
        self._seen_header_damage = self._chain.damaged_headers
        return links

    def _open_successor(self, link: Link) -> bool:
        for current, following in pairwise(self._links()):
            if current.path == link.path:
                self._open(following)
                return True
        return False

    def _rewind(self, link: Link, successor: Path, segment: Path | None = None) -> None:
        """We read entries that were then cut off behind ``link``. Another aggregator gives
        their sequences out anew; the same one only moved them into the ``successor``."""
        self._offset = link.limit or 0
        if _order(segment or link.path)[0] == _order(successor)[0]:
            return
        last = max(sequences(link, HISTORY_KINDS), default=0)
        if last:
            self.cursor = min(self.cursor, last)

    def _open_first(self) -> bool:
        links = self._links()
        if not links:
            return False
        start, begin = links[0], self._beginning
        at = next((link for link in links if begin and link.path == begin.path), None)
        if at is not None and begin is not None:
            self._open(at)
            self._offset, self._layouts = begin.offset, dict(begin.layouts)
            return True
        if self.cursor:
            # Each segment holds the layouts that it uses, so the reading may begin at any.
            for link in reversed(links[1:]):
                if 0 < first_sequence(link, HISTORY_KINDS) <= self.cursor + 1:
                    start = link
                    break
        self._open(start)
        return True

    def _open(self, link: Link) -> None:
        self.close()
        self._fd = open_segment(link.path)
        self._segment = link.path
        self._offset = 0
        self._chunk_bytes = CHUNK_BYTES
        self._passed_over_at = -1


def _order(path: Path) -> tuple[int, int]:
    parsed = parse_segment_name(path.name)
    return (0, 0) if parsed is None else parsed[1:]
