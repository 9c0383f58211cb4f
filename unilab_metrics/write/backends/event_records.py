"""The record format of event files: length, masked crc32c of it, data, masked crc32c; pure.

A reader stops for good at the first record that is not whole, so everything behind one is
lost to it.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import crc32c

_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
HEADER_BYTES = _LENGTH.size + _CRC.size
FOOTER_BYTES = _CRC.size
MAX_DATA_BYTES = 256 * 1024 * 1024
"""A longer length is taken for damage."""
_MASK_DELTA = 0xA282EAD8
_MASK_32 = 0xFFFFFFFF


class EventRecord(NamedTuple):
    """One record; ``start`` and ``end`` are offsets of the whole record in its buffer."""

    start: int
    end: int
    data: memoryview


def frame(data: bytes) -> bytes:
    """The record of one serialized event."""
    length = _LENGTH.pack(len(data))
    return b"".join((length, _CRC.pack(_masked_crc(length)), data, _CRC.pack(_masked_crc(data))))


def scan(buffer: bytes | memoryview) -> tuple[list[EventRecord], int]:
    """The whole records at the start of a buffer, and where they end."""
    view = memoryview(buffer)
    records: list[EventRecord] = []
    start = 0
    while True:
        end = record_end(view, start)
        if end is None or end > len(view):
            return records, start
        data = view[start + HEADER_BYTES : end - FOOTER_BYTES]
        if _CRC.unpack_from(view, end - FOOTER_BYTES)[0] != _masked_crc(data):
            return records, start
        records.append(EventRecord(start, end, data))
        start = end


def record_end(view: memoryview, start: int) -> int | None:
    """Where the record that starts here ends, or ``None`` if its header is not whole."""
    if len(view) - start < HEADER_BYTES:
        return None
    (data_bytes,) = _LENGTH.unpack_from(view, start)
    (crc,) = _CRC.unpack_from(view, start + _LENGTH.size)
    if crc != _masked_crc(view[start : start + _LENGTH.size]) or data_bytes > MAX_DATA_BYTES:
        return None
    return start + HEADER_BYTES + data_bytes + FOOTER_BYTES


def _masked_crc(data: bytes | memoryview) -> int:
    crc = crc32c.crc32c(data)
    return ((((crc >> 15) | (crc << 17)) & _MASK_32) + _MASK_DELTA) & _MASK_32
