"""Where in a segment a sequence lies, without reading all that is before it.

Only headers are looked at, from one record's length to the next one, and of many records of the same
length all at once: a segment of 32 MiB takes a few milliseconds, once. What is found is a place to
begin, not a promise that what lies there is whole: whoever reads there checks it.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Container
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unilab_metrics.storage.records import (
    HEADER,
    HEADER_BYTES,
    MAGIC,
    MAX_PAYLOAD_BYTES,
    RECORD_VERSION,
)
from unilab_metrics.storage.segments import open_segment, read_at

_CHUNK_BYTES = 1024 * 1024
_EVERY_BYTES = 64 * 1024
_ALIKE = 16
"""After so many records of the same length the next ones are taken for like these."""
_BACK_OFF = 64
_HEADERS = np.dtype([("kind_and_length", "<u8"), ("sequence", "<u8"), ("crc", "<u4")])
_WORD_BYTES = 8


class Mark(NamedTuple):
    """A record begins there whose sequence is the first one of all that follow."""

    sequence: int
    offset: int


class SegmentMap:
    """One segment, as far as it was walked through. Owned by one thread."""

    def __init__(
        self, path: Path, *, kinds: Container[int], kept_kind: int, limit: int | None = None
    ) -> None:
        """``kinds``: of records; another one is damage. ``kept_kind``: where each record of this
        kind lies is kept in ``kept``. ``limit``: bytes that count."""
        self.path = path
        self.kept: list[int] = []
        self._kinds = kinds
        self._kept_kind = kept_kind
        self._limit = limit
        self._marks: list[Mark] = []
        self._walked: int = 0
        self._last: int = 0
        self._next_mark: int = 0
        self._is_damaged = False

    def first(self) -> int:
        """The first sequence in it, 0 as long as there is none. Raises ``OSError``."""
        if not self._marks:
            self._walk(1, _EVERY_BYTES)
        return self._marks[0].sequence if self._marks else 0

    def seek(self, sequence: int) -> int:
        """An offset from which on every record from ``sequence`` on lies. Raises ``OSError``."""
        if self._last < sequence:
            self._walk(sequence)
        at = bisect_right(self._marks, sequence, key=lambda mark: mark.sequence) - 1
        return self._marks[at].offset if at >= 0 else 0

    def _walk(self, until: int, chunk_bytes: int = _CHUNK_BYTES) -> None:
        if self._is_damaged:
            return
        fd = open_segment(self.path)
        try:
            size = os.fstat(fd).st_size
            if self._limit is not None:
                size = min(size, self._limit)
            while self._last < until and not self._is_damaged:
                data = read_at(fd, self._walked, min(chunk_bytes, size - self._walked))
                if len(data) < HEADER_BYTES or not self._note(data, size):
                    return
        finally:
            os.close(fd)

    def _note(self, data: bytes, size: int) -> bool:
        """Whether there may be more."""
        begin, offset, last = self._walked, 0, self._last
        same_length = alike = 0
        unpack = HEADER.unpack_from
        end = len(data) - HEADER_BYTES
        while offset <= end:
            magic, version, kind, length, sequence, _crc = unpack(data, offset)
            is_whole = begin + offset + HEADER_BYTES + length <= size
            if (
                magic != MAGIC
                or version != RECORD_VERSION
                or length > MAX_PAYLOAD_BYTES
                or kind not in self._kinds
                or not is_whole
            ):
                # Behind the last good record of a file that grows there may be more one day.
                self._is_damaged = is_whole or begin + offset + MAX_PAYLOAD_BYTES < size
                self._walked, self._last = begin + offset, last
                return False
            if kind == self._kept_kind:
                self.kept.append(begin + offset)
            elif sequence > last:
                if not self._marks or begin + offset >= self._next_mark:
                    self._marks.append(Mark(sequence, begin + offset))
                    self._next_mark = begin + offset + _EVERY_BYTES
                last = sequence
                alike = alike + 1 if length == same_length else min(alike, 0)
                same_length = length
            offset += HEADER_BYTES + length
            if alike >= _ALIKE and kind != self._kept_kind:
                passed, last = self._note_alike(data, offset, HEADER_BYTES + length, size, last)
                offset += passed
                alike = 0 if passed else -_BACK_OFF
        self._walked, self._last = begin + offset, last
        return True

    def _note_alike(
        self, data: bytes, offset: int, stride: int, size: int, last: int
    ) -> tuple[int, int]:
        """How many bytes of ``data`` from ``offset`` on hold records of the kind and length of the
        one before, ``stride`` bytes each, with ever higher sequences; and the last of these."""
        there = min(len(data) - HEADER_BYTES - offset, size - self._walked - offset - stride)
        count = there // stride + 1
        if count < _ALIKE:
            return 0, last
        headers = np.ndarray((count,), _HEADERS, data, offset, (stride,))
        like = int.from_bytes(data[offset - stride : offset - stride + _WORD_BYTES], "little")
        is_like = headers["kind_and_length"] == like
        sequences = headers["sequence"]
        is_like[0] &= sequences[0] > last
        is_like[1:] &= sequences[1:] > sequences[:-1]
        count = count if is_like.all() else int(is_like.argmin())
        if count < _ALIKE:
            return 0, last
        begin = self._walked + offset
        at = max(-((begin - self._next_mark) // stride), 0)
        while at < count:
            self._marks.append(Mark(int(sequences[at]), begin + at * stride))
            self._next_mark = begin + at * stride + _EVERY_BYTES
            at = -((begin - self._next_mark) // stride)
        return count * stride, int(sequences[count - 1])
