"""The files of one's own spool: the open segment, the full ones, and what each segment repeats.

Written under the spool's lock; :meth:`SpoolFiles.take`, :meth:`~SpoolFiles.trim` and the
watermark belong to the thread that reads (the shipper).
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

from unilab_metrics import crash_points
from unilab_metrics.errors import StorageError
from unilab_metrics.publish.memory_segment import MemorySegment
from unilab_metrics.publish.spool_segment import SpoolSegment
from unilab_metrics.storage.filesystem import private_directory
from unilab_metrics.storage.records import encode_record
from unilab_metrics.storage.segments import segment_name
from unilab_metrics.storage.spool_reader import (
    SPOOL_EPOCH,
    SPOOL_PREFIX,
    SpoolBatch,
    pass_over_damage,
)
from unilab_schema.codec import RecordKind, encode_payload
from unilab_schema.identity import Identity

SEGMENT_BYTES = 8 * 1024 * 1024
QUOTA_BYTES = 256 * 1024 * 1024
_LEAST_SEGMENT_BYTES = 64 * 1024
_ENDLESS = 2**62
_MOST_ANNOUNCED_BYTES = 256 * 1024
"""Copies of announcements that a repaired batch may carry and still be one message."""


def limits(free_bytes: int) -> tuple[int, int]:
    """Segment size and quota on a file system with this much room: a spool leaves most of a
    small one to others, and gives room back in small pieces. Pure."""
    segment_bytes = min(SEGMENT_BYTES, max(free_bytes // 64, _LEAST_SEGMENT_BYTES))
    return segment_bytes, min(QUOTA_BYTES, max(free_bytes // 2, 2 * segment_bytes))


def _nothing() -> None:
    """For a directory that nobody removes."""


class SpoolFiles:
    """Segments in order; there is always one. Raises ``OSError`` if the first cannot be made."""

    def __init__(
        self,
        directory: Path,
        identity: Identity,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        quota_bytes: int = QUOTA_BYTES,
        in_memory: bool = False,
        removed: Callable[[], object] = _nothing,
    ) -> None:
        """``in_memory``: until :meth:`begin`. ``removed``: somebody had removed the directory,
        which is there again."""
        self._removed = removed
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._quota_bytes = quota_bytes
        self._closed_bytes = 0
        self._trimmed_bytes = 0
        self._rotate_at = segment_bytes
        self._number = 0
        self._preamble = [encode_record(RecordKind.IDENTITY, 0, encode_payload(identity))]
        self.current = MemorySegment() if in_memory else self._new_segment(1)
        """The segment that is written to."""
        self.room_until = _ENDLESS if in_memory else min(segment_bytes, quota_bytes)
        """Size of the current segment up to which a record needs no :meth:`make_room`."""
        self._segments = [self.current]

    def begin(self, first: int, segment_bytes: int, quota_bytes: int) -> None:
        """Go on in files, with the sequence ``first``. Raises ``OSError``."""
        self._segment_bytes, self._quota_bytes = segment_bytes, quota_bytes
        self._go_on_in(self._new_segment(first))

    def make_room(self, size_bytes: int, sequence: int) -> SpoolSegment | None:
        """The segment for a record that is not sure to fit; ``None`` beyond the quota.

        Goes on with the current segment when no new file can be made: that one may still
        have room.
        """
        if self.current.size_bytes + size_bytes > self._rotate_at:
            self._rotate(sequence)
        left = self._quota_bytes - self._closed_bytes + self._trimmed_bytes
        self.room_until = min(self._rotate_at, left)
        return self.current if self.current.size_bytes + size_bytes <= left else None

    def prefer_new_segment(self) -> None:
        """The open one has reached a limit for files that is below the segment size."""
        self._rotate_at = min(self._rotate_at, self.current.size_bytes)
        self.room_until = 0

    def repeat(self, kind: int, payload: bytes) -> None:
        """Let every later segment begin with this record too, as sequence 0."""
        self._preamble.append(encode_record(kind, 0, payload))

    def _rotate(self, sequence: int) -> None:
        full = self.current
        try:
            segment = self._next_segment(sequence)
        except (OSError, StorageError):
            self._rotate_at = full.size_bytes + self._segment_bytes // 8
            return
        self._go_on_in(segment)
        if crash_points.armed:
            crash_points.reach("publisher.rotated")

    def _go_on_in(self, segment: SpoolSegment) -> None:
        # A preamble that fills a segment must not make every record rotate.
        self._rotate_at = max(self._segment_bytes, 2 * segment.size_bytes)
        self.room_until = 0
        self._closed_bytes += self.current.size_bytes
        self.current = segment
        self._segments.append(segment)

    def _next_segment(self, first: int) -> SpoolSegment:
        try:
            return self._new_segment(first)
        except FileNotFoundError:
            # Whatever cleans up, or a logout.
            for directory in (*reversed(self._directory.parents[:2]), self._directory):
                if not directory.exists():
                    private_directory(directory)
            self._removed()
            return self._new_segment(first)

    @property
    def is_ours(self) -> bool:
        """Whether nobody in this process has closed the descriptor that is written to."""
        return self.current.is_ours

    def reclaim(self, acked: int, last: int) -> int:
        """Find again what somebody has closed, or go on in a new segment after ``last``. How
        many records beyond ``acked`` are lost by it. Raises ``OSError`` and ``StorageError``
        while no file can be opened; later calls try again."""
        lost = 0
        for segment in [segment for segment in self._segments if not segment.is_ours]:
            kept = segment.first - 1
            try:
                kept = segment.find_again()
            except OSError:
                if segment is self.current:
                    self._go_on_in(self._next_segment(last + 1))
            lost += max(segment.last - max(kept, acked), 0)
        return lost

    @property
    def is_short(self) -> bool:
        """Whether somebody has shortened one of the files."""
        return any(segment.is_short for segment in list(self._segments))

    def leave_short(self, last: int) -> None:
        """Append no more to a file that was shortened, where everything would lie elsewhere than
        it should. Raises ``OSError`` and ``StorageError`` while no other can be made."""
        if self.current.is_short:
            self._go_on_in(self._next_segment(last + 1))

    def index_short(self, acked: int) -> tuple[int, int]:
        """Find what is left in the shortened ones. How many these are, and how many records
        beyond ``acked`` are gone. Raises ``OSError``."""
        count = lost = 0
        for segment in self._segments:
            if segment is not self.current and segment.is_short:
                before = segment.size_bytes
                lost += segment.index_again(acked)
                self._closed_bytes -= before - segment.size_bytes
                count += 1
        return count, lost

    def restart(self, first: int) -> None:
        """Everything up to ``first - 1`` is durable: give back its room where no new segment
        can be made. Raises ``OSError``."""
        for segment in self._segments[:-1]:
            self._trimmed_bytes += segment.size_bytes
            segment.delete()
        del self._segments[:-1]
        self.current.restart(first, b"".join(self._preamble))
        self._rotate_at = max(self._segment_bytes, 2 * self.current.size_bytes)
        self.room_until = 0

    def _new_segment(self, first: int) -> SpoolSegment:
        self._number += 1
        name = segment_name(SPOOL_PREFIX, SPOOL_EPOCH, self._number)
        return SpoolSegment(self._directory / name, first, b"".join(self._preamble))

    @property
    def first(self) -> int:
        """The lowest sequence that is still here; the next one if there is none."""
        return self._segments[0].first

    def take(self, after: int, upto: int, max_bytes: int, *, verify: bool = False) -> SpoolBatch:
        """The records from ``after + 1`` to at most ``upto``, verbatim; there must be one.

        ``verify``: check each one, and pass over what cannot be read with a gap. Bytes that
        the file system does not give back are passed over in any case.
        """
        first = self.first
        if after + 1 < first:
            gap = pass_over_damage(b"", after, first - 1, self._announcements())
            return SpoolBatch(gap, first - 1)
        segment = self._segment_of(after + 1)
        start, end, last = segment.range_after(after, upto, max_bytes)
        data = segment.read(start, end)
        if len(data) < end - start and segment.is_short:
            # Records that are elsewhere in it now must not be passed over.
            raise OSError(errno.EIO, "the file was shortened", str(segment.path))
        if verify or segment.is_damaged or len(data) < end - start:
            data = pass_over_damage(data, after, last, self._announcements())
        return SpoolBatch(data, last)

    def _announcements(self) -> list[bytes]:
        copies = self._preamble[1:]
        return copies if sum(map(len, copies)) <= _MOST_ANNOUNCED_BYTES else []

    def stamp_ns(self, sequence: int) -> int:
        """The monotonic stamp of a record, or of the first one here if that is later."""
        sequence = max(sequence, self.first)
        segment = self._segment_of(sequence)
        return segment.stamps[sequence - segment.first]

    def _segment_of(self, sequence: int) -> SpoolSegment:
        return next(s for s in reversed(list(self._segments)) if s.first <= sequence)

    def trim(self, durable: int) -> None:
        """Delete the full segments whose every record is durable in the journal."""
        while len(self._segments) > 1 and self._segments[0].last <= durable:
            segment = self._segments.pop(0)
            self._trimmed_bytes += segment.size_bytes
            if crash_points.armed:
                crash_points.reach("publisher.trimming")
            segment.delete()

    def close(self, *, remove: bool) -> None:
        """Close every descriptor; ``remove``: delete the files too."""
        for segment in self._segments:
            if remove:
                segment.delete()
            else:
                segment.close()
