"""Reading a spool, one's own or a dead process's: records in sequence, holes named.

A spool is a directory of segments ``spool-000001-<n>``. Each begins with the source's
identity and, from the second on, repeats its layouts and tag names with sequence 0, so that a
segment can be read alone. Every other record has the next sequence, from 1 on. What cannot
be read is passed over with a ``Gap`` record whose own sequence is the last one it stands for.

Here and not in ``publish``, because the aggregator adopts the spools of dead processes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from unilab_metrics.storage.record_chunks import Chunk, chunks
from unilab_metrics.storage.records import Scan, damaged_at_end, encode_record, scan
from unilab_metrics.storage.segments import list_segments, open_segment, read_at
from unilab_schema.codec import (
    MAX_FRAME_BYTES,
    FrameDecodeError,
    RecordKind,
    decode_payload,
    encode_payload,
)
from unilab_schema.frames import (
    End,
    EventFrame,
    Gap,
    IterationFrame,
    ReportFrame,
    SparseFrame,
)
from unilab_schema.identity import Identity

SPOOL_PREFIX = "spool"
SPOOL_EPOCH = 1
"""A spool belongs to one incarnation, so its segments never change their epoch."""
LEASE_NAME = "lease"
"""The file in the spool directory that its process holds."""
_CHUNK_BYTES = 64 * 1024
_STAMPED = (End, EventFrame, IterationFrame, ReportFrame, SparseFrame)
SOURCE_KINDS = frozenset(kind for kind in RecordKind if kind < RecordKind.UPDATE_LAYOUT)


class SpoolBatch(NamedTuple):
    """Records back to back, as a ``Batch`` carries them, up to the sequence ``last``."""

    records: bytes
    last: int


class SpoolReader:
    """The segments of one spool as they lie there when asked. Writes nothing.

    ``identity`` is ``None`` for a directory without a readable segment. ``refusal``: why one that
    lies there whole is none that this version knows, empty where that is not so. Raises
    ``OSError`` for files that cannot be read, except those that vanish meanwhile.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.refusal = ""
        self.identity = self._identity()

    def batches(self, after: int = 0, max_bytes: int = MAX_FRAME_BYTES) -> Iterator[SpoolBatch]:
        """The records beyond sequence ``after``, in batches of about ``max_bytes``.

        A torn tail is no record; damage with records behind it, a whole last record that is
        damaged, and missing segments are covered by gaps, so the sequences of all batches
        together have no hole. Between two of them a small part of a segment is held.
        """
        last = after
        spoiled = 0
        for path in list_segments(self.directory, SPOOL_PREFIX):
            taken: list[bytes] = []
            announced: list[bytes] = []
            size = 0
            for chunk in _chunks(path):
                found = chunk.found
                spoiled = max(spoiled, *(record.sequence for record in found.records), 0)
                if chunk.is_last:
                    spoiled += damaged_at_end(chunk.data, found)
                for piece, sequence in _pieces(chunk.data, found, last, announced):
                    taken.append(piece)
                    size += len(piece)
                    last = sequence
                    if size >= max_bytes:
                        yield SpoolBatch(b"".join(taken), last)
                        taken, size = [], 0
            if taken:
                yield SpoolBatch(b"".join(taken), last)
        if spoiled > last:
            # Its sequence cannot be read, but a whole record was there.
            yield SpoolBatch(_gap(last + 1, spoiled), spoiled)

    def last(self) -> int:
        """The highest sequence that lies there; 0 for an empty spool."""
        for path in reversed(list_segments(self.directory, SPOOL_PREFIX)):
            data = _read(path)
            found = max((r.sequence for r in scan(data, kinds=SOURCE_KINDS).records), default=0)
            if found:
                return found
        return 0

    @property
    def size_bytes(self) -> int:
        """Of all segments together. Raises ``OSError``."""
        return sum(path.stat().st_size for path in list_segments(self.directory, SPOOL_PREFIX))

    def last_mono_ns(self) -> int:
        """The stamp of the newest frame that has one; 0 if none has."""
        for path in reversed(list_segments(self.directory, SPOOL_PREFIX)):
            for record in reversed(scan(_read(path), kinds=SOURCE_KINDS).records):
                try:
                    frame = decode_payload(record.kind, record.payload)
                except FrameDecodeError:
                    continue
                if isinstance(frame, _STAMPED):
                    return frame.mono_ns
        return 0

    def _identity(self) -> Identity | None:
        for path in list_segments(self.directory, SPOOL_PREFIX):
            # It is asked of every spool that lies there, and lies at the beginning.
            for record in chain.from_iterable(chunk.found.records for chunk in _chunks(path)):
                if record.kind == RecordKind.IDENTITY:
                    try:
                        return decode_payload(record.kind, record.payload)
                    except FrameDecodeError as error:
                        # Its checksum is right: this is what was written.
                        self.refusal = str(error)
        return None


def pass_over_damage(
    data: bytes, after: int, last: int, announcements: Sequence[bytes] = ()
) -> bytes:
    """The good records of ``data`` beyond ``after``, with gaps for the rest up to ``last``.

    ``announcements`` follow the first gap, which may have swallowed a layout.
    """
    pieces: list[bytes] = []
    missing = list(announcements)
    reached = after
    for record in scan(data, kinds=SOURCE_KINDS).records:
        if record.sequence <= reached:
            continue
        if record.sequence > reached + 1:
            pieces += [_gap(reached + 1, record.sequence - 1), *missing]
            missing.clear()
        pieces.append(data[record.start : record.end])
        reached = record.sequence
    if reached < last:
        pieces += [_gap(reached + 1, last), *missing]
    return b"".join(pieces)


def _pieces(
    data: bytes, found: Scan, after: int, announced: list[bytes]
) -> Iterator[tuple[bytes, int]]:
    """Bytes to send and the sequence reached with them, for a part of a segment.

    ``announced``: what its parts before this one announce, to which this one adds. That is needed
    only after a gap, which may have swallowed a layout.
    """
    reached = after
    for record in found.records:
        if record.sequence == 0:
            if record.kind != RecordKind.IDENTITY:
                announced.append(data[record.start : record.end])
            continue
        if record.sequence <= reached:
            continue
        if record.sequence > reached + 1:
            gap = _gap(reached + 1, record.sequence - 1)
            reached = record.sequence - 1
            yield gap, reached
            for announcement in announced:
                yield announcement, reached
        reached = record.sequence
        yield data[record.start : record.end], reached


def _gap(first: int, last: int) -> bytes:
    payload = encode_payload(Gap(first, last, "not readable in the spool"))
    return encode_record(RecordKind.GAP, last, payload)


def _chunks(path: Path) -> Iterator[Chunk]:
    """Of one segment, as far as it is there. No descriptor is held between two of them: a run may
    leave hundreds of spools that are read by turns."""
    begin = 0
    while True:
        try:
            fd = open_segment(path)
        except FileNotFoundError:
            return
        try:
            chunk = next(chunks(fd, begin, kinds=SOURCE_KINDS, chunk_bytes=_CHUNK_BYTES))
        finally:
            os.close(fd)
        yield chunk
        if chunk.is_last or not chunk.data:
            return
        begin = chunk.following


def _read(path: Path) -> bytes:
    try:
        fd = open_segment(path)
    except FileNotFoundError:
        return b""
    try:
        return read_at(fd, 0, os.fstat(fd).st_size)
    finally:
        os.close(fd)
