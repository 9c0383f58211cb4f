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
        following = _next_good(view, offset + 1, kinds)
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


def _next_good(view: memoryview, start: int, kinds: Container[int] | None) -> int | None:
    """Offset of the first good record at or after ``start``.

    The bytes checked are bounded: crafted input could otherwise make every offset a candidate
    with a checksum over all the rest.
    """
    data = bytes(view[start:])
    budget = max(_SEARCH_FACTOR * len(data), _SEARCH_FLOOR_BYTES)
    found = data.find(_PREFIX)
    while found >= 0 and budget > 0:
        offset = start + found
        if offset + HEADER_BYTES > len(view):
            return None
        reason = _fault(view, offset, kinds)
        if not reason:
            return offset
        if reason == "checksum":
            budget -= HEADER.unpack_from(view, offset)[3]
        found = data.find(_PREFIX, found + 1)
    return None
