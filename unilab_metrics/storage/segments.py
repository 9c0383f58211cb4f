"""Append-only files of records: making, appending, naming, and their header record.

A segment is written by one thread of one process and never rewritten. Its name carries the
epoch counter of its writer and a number, so that names sort in the order of writing.
"""

from __future__ import annotations

import errno
import os
import re
import resource
from pathlib import Path

import msgspec

from unilab_metrics import crash_points
from unilab_metrics.errors import DamagedFileError, StorageFullError, UnknownVersionError
from unilab_metrics.storage.bounded_reading import open_regular
from unilab_metrics.storage.records import (
    HEADER,
    HEADER_BYTES,
    MAGIC,
    RECORD_VERSION,
    encode_record,
    scan,
)
from unilab_schema.control import Epoch

KIND_SEGMENT_HEADER = 96
"""First record of each wal and history segment; its payload is a :class:`SegmentHeader`."""
SEGMENT_FORMAT_VERSION = 1
DAMAGED_SUFFIX = ".damaged"
"""Of a segment that is not read any more, and is kept for whoever wants to look at it."""

_FULL = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT})
_NAME = re.compile(r"(?P<prefix>[A-Za-z0-9_.]+)-(?P<epoch>\d{6,})-(?P<number>\d{6,})")
_HEADER_READ_BYTES = 4096
_MAX_HEADER_BYTES = 64 * 1024
"""Of a header that is believed: its names are short."""


class SegmentHeader(msgspec.Struct, frozen=True, array_like=True):
    """What a segment continues.

    ``previous_name`` is empty for the first one. Bytes of the previous segment beyond
    ``previous_valid_bytes`` were written by a process that had already been replaced, or
    are a torn tail: readers ignore them.
    """

    format_version: int
    prefix: str
    epoch: Epoch
    number: int
    previous_name: str = ""
    previous_valid_bytes: int = 0


class _VersionOnly(msgspec.Struct, frozen=True, array_like=True):
    format_version: int


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(SegmentHeader)
_version_decoder = msgspec.msgpack.Decoder(_VersionOnly)


def _is_beyond_limit(size_bytes: int) -> bool:
    """Whether the process may not make a file of that size."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    return limit != resource.RLIM_INFINITY and size_bytes > limit


class SegmentWriter:
    """Appends to one new segment. Owned by one thread, except :meth:`fdatasync`."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self.size_bytes = 0
        self._fd = fd
        self._tail_is_torn = False

    @classmethod
    def create(cls, path: Path) -> SegmentWriter:
        """A new empty segment with mode 0600. Raises ``FileExistsError`` and ``OSError``."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        return cls(path, os.open(path, flags, 0o600))

    def append(self, data: bytes) -> int:
        """Write ``data`` with one ``os.write``; returns the offset at which it lies.

        All or nothing: a short write is truncated back. Raises :class:`StorageFullError`
        when there is no room and ``OSError`` for other failures.
        """
        if self._tail_is_torn:
            self._truncate_back()
        offset = self.size_bytes
        try:
            if crash_points.armed:
                crash_points.write_file(self.path.name, self._fd, data, offset)
            written = os.write(self._fd, data)
        except OSError as error:
            self._tail_is_torn = True
            if error.errno in _FULL:
                raise StorageFullError(self.path, len(data), error.errno or 0) from error
            raise
        if written != len(data):
            self._tail_is_torn = True
            self._truncate_back()
            is_limited = _is_beyond_limit(offset + len(data))
            raise StorageFullError(self.path, len(data), errno.EFBIG if is_limited else 0)
        self.size_bytes = offset + written
        return offset

    def _truncate_back(self) -> None:
        os.ftruncate(self._fd, self.size_bytes)
        self._tail_is_torn = False

    def fdatasync(self) -> None:
        """Wait until what was appended is on the disk; may be called from a helper thread."""
        if crash_points.armed:
            crash_points.reach("aggregator.syncing")
        getattr(os, "fdatasync", os.fsync)(self._fd)

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._fd < 0

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


def segment_name(prefix: str, epoch_counter: int, number: int) -> str:
    """``history-000001-000004``; wider numbers keep their digits."""
    return f"{prefix}-{epoch_counter:06d}-{number:06d}"


def parse_segment_name(name: str) -> tuple[str, int, int] | None:
    """(prefix, epoch counter, number), or ``None`` for other files."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return match["prefix"], int(match["epoch"]), int(match["number"])


def counter_of(path: Path) -> int:
    """The epoch counter that a segment's name says, 0 of other files."""
    parsed = parse_segment_name(path.name)
    return 0 if parsed is None else parsed[1]


def list_segments(directory: Path, prefix: str) -> list[Path]:
    """The segments of ``prefix`` by epoch counter, then number; empty if there is no such
    directory."""
    try:
        names = [entry.name for entry in directory.iterdir()]
    except FileNotFoundError:
        return []
    keyed: list[tuple[int, int, str]] = []
    for name in names:
        parsed = parse_segment_name(name)
        if parsed is not None and parsed[0] == prefix:
            keyed.append((parsed[1], parsed[2], name))
    return [directory / name for _, _, name in sorted(keyed)]


def open_segment(path: Path) -> int:
    """A descriptor for reading. Raises ``OSError``, ``IrregularFileError`` for what is no regular
    file."""
    return open_regular(path, follow=False)


def read_segment(path: Path) -> bytes:
    """A segment as it lies there. Raises ``OSError`` as :func:`open_segment` does."""
    fd = open_segment(path)
    try:
        return read_at(fd, 0, os.fstat(fd).st_size)
    finally:
        os.close(fd)


def sync_file(path: Path) -> None:
    """Wait until a segment of another process's making is on the disk. Raises ``OSError``."""
    fd = open_segment(path)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def read_at(fd: int, offset: int, max_bytes: int) -> bytes:
    """Up to ``max_bytes`` from ``offset``; shorter only at the end of the file."""
    data = os.pread(fd, max_bytes, offset)
    if len(data) == max_bytes or not data:
        return data
    parts = [data]
    got = len(data)
    while got < max_bytes:
        data = os.pread(fd, max_bytes - got, offset + got)
        if not data:
            break
        parts.append(data)
        got += len(data)
    return b"".join(parts)


def encode_segment_header(header: SegmentHeader) -> bytes:
    """The segment's first record, sequence 0."""
    return encode_record(KIND_SEGMENT_HEADER, 0, _encoder.encode(header))


def decode_segment_header(payload: bytes | memoryview, path: Path) -> SegmentHeader:
    """Raises :class:`UnknownVersionError` and :class:`DamagedFileError`; ``path`` names it."""
    try:
        version = _version_decoder.decode(payload).format_version
        if version != SEGMENT_FORMAT_VERSION:
            raise UnknownVersionError(path, version, SEGMENT_FORMAT_VERSION)
        return _decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedFileError(path, 0, f"segment header: {error}") from error


def read_segment_header(path: Path) -> SegmentHeader | None:
    """The header of a segment; ``None`` while its first record is not complete.

    Raises :class:`UnknownVersionError` for a format that we do not know,
    :class:`DamagedFileError` for bytes that are no header, and ``OSError``.
    """
    fd = open_segment(path)
    try:
        data = read_at(fd, 0, _HEADER_READ_BYTES)
        if len(data) >= HEADER_BYTES:
            magic, version, _, length, _, _ = HEADER.unpack_from(data)
            if magic == MAGIC and version > RECORD_VERSION and not _is_ours(data):
                raise UnknownVersionError(path, version, RECORD_VERSION)
            if magic == MAGIC and length > _MAX_HEADER_BYTES:
                raise DamagedFileError(path, 0, f"segment header: length {length}")
            if magic == MAGIC and HEADER_BYTES + length > len(data):
                data = read_at(fd, 0, HEADER_BYTES + length)
    finally:
        os.close(fd)
    # Good records behind it show that it is damaged, and not just being written.
    result = scan(data)
    if result.records and result.records[0].start == 0:
        first = result.records[0]
        if first.kind != KIND_SEGMENT_HEADER:
            raise DamagedFileError(path, 0, f"starts with a record of kind {first.kind}")
        return decode_segment_header(first.payload, path)
    if not result.records and result.tail_reason in {"", "record is not complete"}:
        return None
    raise DamagedFileError(path, 0, f"segment header: {result.tail_reason or 'damaged'}")


def _is_ours(data: bytes) -> bool:
    """Whether the first record is one of our version but for the byte that says so."""
    version_at = len(MAGIC)
    mended = data[:version_at] + bytes([RECORD_VERSION]) + data[version_at + 1 :]
    found = scan(mended).records
    return bool(found) and found[0].start == 0
