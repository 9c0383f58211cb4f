"""The one record format: spool, batch, wal and history all hold these, back to back.

``magic "um"``, ``version``, ``kind``, ``payload length`` (u32), ``sequence`` (u64), ``crc32``
(u32, over the sixteen bytes before it and the payload), payload. Little endian.

Pure. :func:`scan` reads any of them and never raises on bytes: it tells good records, damage
that has good records behind it, and a torn tail apart.
"""

from __future__ import annotations

import struct
from collections.abc import Container
from typing import NamedTuple
from zlib import crc32

MAGIC = b"um"
RECORD_VERSION = 1
HEADER = struct.Struct("<2sBBIQI")
HEADER_BYTES = HEADER.size
MAX_PAYLOAD_BYTES = 16 * 1024 * 1024
"""Beyond any record that we write; a greater length is damage, not a record to wait for."""

_CHECKED = struct.Struct("<2sBBIQ")
_CHECKED_BYTES = _CHECKED.size
_CRC = struct.Struct("<I")
_PREFIX = MAGIC + bytes([RECORD_VERSION])
_CUT = "record is not complete"
_SEARCH_FACTOR = 8
_SEARCH_FLOOR_BYTES = 8 * 1024 * 1024


class Record(NamedTuple):
    """A good record. ``payload`` views the scanned buffer; ``start`` and ``end`` are offsets
    of the whole record in it."""

    kind: int
    sequence: int
    payload: memoryview
    start: int
    end: int


class Damage(NamedTuple):
    """Bytes ``start..end`` of the buffer are no record, and good records follow."""

    start: int
    end: int
    reason: str


class Scan(NamedTuple):
    """What a buffer holds.

    ``valid_bytes``: offset after the last good record. What follows is the tail: a record
    that is not there completely (yet), or bytes with nothing good behind them;
    ``tail_reason`` says which, empty without a tail.
    """

    records: list[Record]
    valid_bytes: int
    damaged: list[Damage]
    tail_reason: str


def encode_record(kind: int, sequence: int, payload: bytes) -> bytes:
    """Header and payload. ``kind`` 0..255, ``sequence`` 0..2**64-1.

    Raises ``ValueError`` for a payload beyond ``MAX_PAYLOAD_BYTES``.
    """
    length = len(payload)
    if length > MAX_PAYLOAD_BYTES:
        raise ValueError(f"record payload of {length} bytes exceeds {MAX_PAYLOAD_BYTES}")
    checked = _CHECKED.pack(MAGIC, RECORD_VERSION, kind, length, sequence)
    return checked + _CRC.pack(crc32(payload, crc32(checked))) + payload


def scan(
    buffer: bytes | bytearray | memoryview,
    *,
    kinds: Container[int] | None = None,
    complete: bool = True,
) -> Scan:
    """All good records of ``buffer``, which starts at a record boundary.

    ``kinds``: take only these; a record of another kind is damage. A reader of records whose
    payloads hold whole records themselves must give it, or the inner ones of a torn outer
    record would be taken for outer ones.

    ``complete=False``: more bytes of the same file are known to follow the buffer, so a
    plausible record that reaches beyond its end is the tail and is not searched.
    """
    view = memoryview(buffer).toreadonly()
    size = len(view)
    records: list[Record] = []
    damaged: list[Damage] = []
    append = records.append
    unpack = HEADER.unpack_from
    search: _Search | None = None
    offset = 0
    while offset + HEADER_BYTES <= size:
        magic, version, kind, length, sequence, crc = unpack(view, offset)
        body = offset + HEADER_BYTES
        end = body + length
        if (
            magic == MAGIC
            and version == RECORD_VERSION
            and end <= size
            and crc32(view[body:end], crc32(view[offset : offset + _CHECKED_BYTES])) == crc
            and (kinds is None or kind in kinds)
        ):
            append(Record(kind, sequence, view[body:end], offset, end))
            offset = end
            continue
        reason = _fault(view, offset, kinds)
        if not complete and reason == _CUT:
            return Scan(records, offset, damaged, reason)
        search = search or _Search(view, kinds)
        following = search.next_good(offset + 1)
        if following is None:
            return Scan(records, offset, damaged, reason)
        damaged.append(Damage(offset, following, reason))
        offset = following
    return Scan(records, offset, damaged, _CUT if offset < size else "")


def _fault(view: memoryview, offset: int, kinds: Container[int] | None) -> str:
    magic, version, kind, length, _, crc = HEADER.unpack_from(view, offset)
    if magic != MAGIC:
        return "no record starts here"
    if version != RECORD_VERSION:
        return f"version {version}"
    if length > MAX_PAYLOAD_BYTES:
        return f"length {length}"
    body = offset + HEADER_BYTES
    end = body + length
    if end > len(view):
        return _CUT
    if crc32(view[body:end], crc32(view[offset : offset + _CHECKED_BYTES])) != crc:
        return "checksum"
    return f"kind {kind}" if kinds is not None and kind not in kinds else ""


class _Search:
    """Finds good records behind damage in one buffer.

    The bytes checked are bounded over the whole buffer: crafted input could otherwise make
    every offset a candidate with a checksum over all the rest.
    """

    def __init__(self, view: memoryview, kinds: Container[int] | None) -> None:
        self._view = view
        self._kinds = kinds
        self._data = bytes(view)
        self._budget = max(_SEARCH_FACTOR * len(view), _SEARCH_FLOOR_BYTES)

    def next_good(self, start: int) -> int | None:
        """Offset of the first good record at or after ``start``."""
        offset = self._data.find(_PREFIX, start)
        while 0 <= offset <= len(self._view) - HEADER_BYTES and self._budget > 0:
            reason = _fault(self._view, offset, self._kinds)
            if not reason:
                return offset
            if reason == "checksum":
                self._budget -= HEADER.unpack_from(self._view, offset)[3]
            offset = self._data.find(_PREFIX, offset + 1)
        return None


def damaged_at_end(data: bytes, found: Scan) -> int:
    """How many records the tail of a complete buffer was, at least: 0 for one that was cut off
    while it was written, or for zeros, which a file system leaves after a loss of power."""
    tail = memoryview(data)[found.valid_bytes :]
    if not found.tail_reason or not any(tail):
        return 0
    if found.tail_reason != _CUT:
        return 1
    return int(len(tail) >= HEADER_BYTES and _has_false_length(tail))


def _has_false_length(tail: memoryview) -> bool:
    """Whether it is a whole record but for the length that its header names."""
    magic, version, kind, _, sequence, crc = HEADER.unpack_from(tail)
    body = tail[HEADER_BYTES:]
    checked = _CHECKED.pack(magic, version, kind, len(body), sequence)
    return crc32(body, crc32(checked)) == crc


def resume_offset(data: bytes) -> int:
    """Where to read on after a buffer without any good record: at the first bytes that may
    begin a record which reaches beyond it, else at its last bytes."""
    view = memoryview(data)
    offset = data.find(_PREFIX, 1)
    while 0 <= offset <= len(data) - HEADER_BYTES:
        if _fault(view, offset, None) == _CUT:
            return offset
        offset = data.find(_PREFIX, offset + 1)
    return max(len(data) - HEADER_BYTES + 1, 1)
