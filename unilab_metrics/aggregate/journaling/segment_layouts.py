"""The layouts of old updates, from the history segments that hold both.

The aggregator remembers only the layouts used last; every segment has those of its updates.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from unilab_metrics.aggregate.journaling.recovery import HISTORY_KINDS
from unilab_metrics.storage.records import Record, scan
from unilab_metrics.storage.segments import open_segment, read_at
from unilab_schema.codec import FrameDecodeError, RecordKind, decode_payload

_MAX_SEGMENTS = 4
_MAX_DECODED_TAGS = 250_000
_READ_BYTES = 1024 * 1024


class _Place(NamedTuple):
    offset: int
    length: int


class SegmentLayouts:
    """One segment's layout records: where they lie, as far as it was read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read_bytes = 0
        self._places: dict[int, _Place] = {}
        self._decoded: dict[int, tuple[str, ...]] = {}
        self._decoded_tags = 0

    def note(self, offset: int, records: list[Record], valid_bytes: int) -> None:
        """These records were read at ``offset``, up to ``valid_bytes`` after it."""
        if not offset <= self._read_bytes < offset + valid_bytes:
            return
        self._read_bytes = offset + valid_bytes
        for record in records:
            if record.kind == RecordKind.UPDATE_LAYOUT:
                try:
                    layout = decode_payload(record.kind, record.payload).layout
                except FrameDecodeError:
                    continue
                place = _Place(offset + record.start, record.end - record.start)
                self._places.setdefault(layout, place)

    def tags(self, layout: int, before: int) -> tuple[str, ...] | None:
        """The tags of a layout that was announced before the offset ``before``. Raises
        ``OSError``."""
        known = self._decoded.get(layout)
        if known is not None:
            return known
        fd = open_segment(self.path)
        try:
            while layout not in self._places and self._read_bytes < before:
                offset = self._read_bytes
                data = read_at(fd, offset, _READ_BYTES)
                found = scan(data, kinds=HISTORY_KINDS, complete=False)
                if not found.valid_bytes:
                    return None
                self.note(offset, found.records, found.valid_bytes)
            place = self._places.get(layout)
            data = b"" if place is None else read_at(fd, place.offset, place.length)
        finally:
            os.close(fd)
        return self._decode(layout, data)

    def _decode(self, layout: int, data: bytes) -> tuple[str, ...] | None:
        records = scan(data, kinds=HISTORY_KINDS).records
        if not records:
            return None
        try:
            tags: tuple[str, ...] = decode_payload(records[0].kind, records[0].payload).tags
        except FrameDecodeError:
            return None
        if self._decoded_tags + len(tags) > _MAX_DECODED_TAGS:
            self._decoded.clear()
            self._decoded_tags = 0
        self._decoded[layout] = tags
        self._decoded_tags += len(tags)
        return tags


class OldLayouts:
    """The layouts of the segments that were served last."""

    def __init__(self) -> None:
        self._segments: dict[Path, SegmentLayouts] = {}

    def of(self, path: Path) -> SegmentLayouts:
        """Those of a segment."""
        known = self._segments.pop(path, None)
        if known is None:
            while len(self._segments) >= _MAX_SEGMENTS:
                del self._segments[next(iter(self._segments))]
            known = SegmentLayouts(path)
        self._segments[path] = known
        return known

    def clear(self) -> None:
        """The files have changed."""
        self._segments.clear()
