"""One of the journal's two chains of segments, and what of it may not be on the disk yet.

What was written since the last sync that succeeded is kept in memory too. A new segment goes
on behind that sync and begins with these bytes, whatever became of them in the old one. So a
rotation and a failed sync are the same act. It has to be so, because a kernel that could not
write a page says so once and then forgets the page: a second fdatasync that succeeds proves
nothing about the bytes of the first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from unilab_metrics import crash_points
from unilab_metrics.errors import StorageFullError
from unilab_metrics.storage.segments import (
    SEGMENT_FORMAT_VERSION,
    SegmentHeader,
    SegmentWriter,
    encode_segment_header,
    segment_name,
)
from unilab_schema.control import Epoch

_UNFINISHED = ".new"
"""Ends the name of a segment until all that it begins with is in it."""


class _Chunk(NamedTuple):
    data: bytes
    layouts: Collection[int]


class JournalFile:
    """The segments of one prefix in one life. Owned by the aggregator's main thread.

    ``segment``: the one that is written to. ``unsynced_bytes``: what is kept in memory.
    """

    def __init__(
        self,
        bus_dir: Path,
        prefix: str,
        epoch: Epoch,
        *,
        create: Callable[[Path], SegmentWriter],
        sync_directory: Callable[[Path], None],
        previous_name: str,
        previous_valid_bytes: int,
    ) -> None:
        """Begins the first segment. Raises ``StorageFullError`` and ``OSError``, and then leaves
        no file."""
        self._bus_dir = bus_dir
        self._prefix = prefix
        self._epoch = epoch
        self._create = create
        self._sync_directory = sync_directory
        self._continues = (previous_name, previous_valid_bytes)
        self._number = 0
        self._unsynced: list[_Chunk] = []
        self._marked = (0, 0)
        self._synced_bytes = 0
        self._begun_bytes = 0
        self.unsynced_bytes = 0
        for path in bus_dir.glob(f"{prefix}-*{_UNFINISHED}"):
            path.unlink(missing_ok=True)
        self.segment = self._make(self._path(), self._header())
        self._is_placed = False
        try:
            self.place()
        except OSError:
            _discard(self.segment)
            raise
        self._announce()

    def append(self, data: bytes, layouts: Collection[int] = ()) -> None:
        """Write a part of a commit; ``layouts``: those that its updates refer to. Raises
        ``StorageFullError`` and ``OSError``, and then has written nothing."""
        self.segment.append(data)
        self._unsynced.append(_Chunk(data, layouts))
        self.unsynced_bytes += len(data)

    def append_apart(self, data: bytes) -> None:
        """Write what a new segment makes anew: a snapshot. Raises as :meth:`append` does."""
        self.segment.append(data)

    def place(self) -> None:
        """Have the segment's name on the disk, before anything relies on it. Raises
        ``OSError``."""
        if not self._is_placed:
            self._sync_directory(self._bus_dir)
            self._is_placed = True

    def mark(self) -> None:
        """A sync begins: it covers what is written now."""
        self._marked = (len(self._unsynced), self.segment.size_bytes)

    def synced(self) -> None:
        """The sync that began at the last mark has succeeded."""
        count, self._synced_bytes = self._marked
        self.unsynced_bytes -= sum(len(chunk.data) for chunk in self._unsynced[:count])
        del self._unsynced[:count]

    def is_full(self, segment_bytes: int) -> bool:
        """Whether the next segment is due. One of which nothing is on the disk is not: its
        successor would be just as long."""
        limit = max(segment_bytes, 2 * self._begun_bytes)
        return self._synced_bytes > 0 and self.segment.size_bytes > limit

    def layouts_in_memory(self) -> set[int]:
        """The layouts that a new segment needs from its beginning."""
        return {layout for chunk in self._unsynced for layout in chunk.layouts}

    @property
    def synced_bytes(self) -> int:
        """How much of :attr:`segment` is on the disk for sure."""
        return self._synced_bytes

    def renew(self, before: Iterable[bytes] = (), after: bytes = b"") -> SegmentWriter:
        """Go on in a new segment, behind the last sync that succeeded; returns the old one, to
        be closed, whose file is gone if nothing of it counts.

        ``before`` and ``after``: records around those in memory. Not while a sync runs. Raises
        ``StorageFullError`` and ``OSError``, and then goes on in the old one.
        """
        old, continues = self.segment, self._continues
        if self._synced_bytes:
            continues = (old.path.name, self._synced_bytes)
        before_renewal = self._number, self._continues
        self._number, self._continues = self._number + 1, continues
        try:
            path = self._path()
            pieces = [self._header(), *before, *(chunk.data for chunk in self._unsynced), after]
            # Under its own name it would cut off the old one before it holds the rest of it.
            made = self._make(path.with_name(path.name + _UNFINISHED), b"".join(pieces))
            try:
                made.path.rename(path)
            except OSError:
                _discard(made)
                raise
        except (OSError, StorageFullError):
            self._number, self._continues = before_renewal
            raise
        made.path = path
        if not self._synced_bytes:
            old.path.unlink(missing_ok=True)
        self.segment = made
        self._begun_bytes = made.size_bytes
        self._synced_bytes, self._marked = 0, (0, 0)
        self._is_placed = False
        self._announce()
        return old

    def abandon(self) -> None:
        """Close and remove the segment: nobody has been told of anything in it."""
        _discard(self.segment)

    def _path(self) -> Path:
        return self._bus_dir / segment_name(self._prefix, self._epoch.counter, self._number)

    def _header(self) -> bytes:
        return encode_segment_header(
            SegmentHeader(
                SEGMENT_FORMAT_VERSION, self._prefix, self._epoch, self._number, *self._continues
            )
        )

    def _make(self, path: Path, data: bytes) -> SegmentWriter:
        segment = self._create(path)
        try:
            segment.append(data)
        except (OSError, StorageFullError):
            _discard(segment)
            raise
        return segment

    def _announce(self) -> None:
        if crash_points.armed:
            crash_points.reach("aggregator.segment_created")


def _discard(segment: SegmentWriter) -> None:
    segment.close()
    segment.path.unlink(missing_ok=True)


def sync_directory(path: Path) -> None:
    """Wait until the names in it are on the disk. Raises ``OSError``."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
