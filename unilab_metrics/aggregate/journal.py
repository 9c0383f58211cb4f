"""The aggregator's two files: the wal (what was accepted and decided) and the history.

A commit is one write to the wal, then one to the history, so that the history never knows
more than the wal. A helper thread syncs both, the wal first. Opening a journal folds the
wal through the pure state, cuts torn tails by naming the valid length in the next segment's
header, completes the history with what the fold publishes again, and begins a new epoch.
"""

from __future__ import annotations

import os
import secrets
from collections import deque
from pathlib import Path
from typing import NamedTuple

from unilab_metrics import crash_points
from unilab_metrics.aggregate.entries import Entry, EntryKind, encode_entry
from unilab_metrics.aggregate.recovery import recover
from unilab_metrics.aggregate.state import AggregatorState, Publication
from unilab_metrics.aggregate.syncing import Syncer
from unilab_metrics.storage.records import MAX_PAYLOAD_BYTES, encode_record
from unilab_metrics.storage.segments import (
    SEGMENT_FORMAT_VERSION,
    SegmentHeader,
    SegmentWriter,
    encode_segment_header,
    list_segments,
    segment_name,
)
from unilab_schema.codec import KIND_OF, RecordKind, encode_payload
from unilab_schema.control import Epoch
from unilab_schema.updates import Supplement, Update, UpdateLayout

WAL = "wal"
HISTORY = "history"
WAL_SEGMENT_BYTES = 32 * 1024 * 1024
HISTORY_SEGMENT_BYTES = 32 * 1024 * 1024
TAIL_BYTES = 8 * 1024 * 1024
"""Newest history records that are kept in memory to answer subscribers."""


class TailRecord(NamedTuple):
    """A history record as bytes; ``layout`` is -1 where it refers to none."""

    sequence: int
    layout: int
    data: bytes


class HistorySegment(NamedTuple):
    """A history file, the first update sequence that it may hold, and how much of it counts
    (``None``: all)."""

    path: Path
    first: int
    valid_bytes: int | None = None


class Journal:
    """Owned by the aggregator's main thread; only the syncs run beside it."""

    def __init__(self, bus_dir: Path) -> None:
        """Open or begin the journal of a run. Raises ``UnknownVersionError``,
        ``DamagedFileError``, ``StorageFullError`` and ``OSError``."""
        self._bus_dir = bus_dir
        recovered = recover(bus_dir)
        self.state: AggregatorState = recovered.state
        self.damaged_records = recovered.damaged_records
        journal_id = recovered.journal_id or secrets.token_bytes(16)
        self.epoch = Epoch(journal_id, recovered.epoch_counter + 1)
        self.segments: list[HistorySegment] = [
            HistorySegment(*known) for known in recovered.history_segments
        ]
        self.tail: deque[TailRecord] = deque()
        self._tail_bytes = 0
        self._wal_buffer: list[bytes] = []
        self._history_buffer: list[bytes] = []
        self._appended_update = recovered.last_update
        self.committed_update = recovered.last_update
        self._obsolete_wal: list[Path] = []
        self._layouts_in_segment: set[int] = set()
        for path in recovered.beyond_wal:
            path.rename(path.with_name(f"{path.name}.beyond-wal"))
        self._wal = self._begin(WAL, 0, recovered.wal_name, recovered.wal_valid_bytes)
        if self._buffer_snapshot():
            self._obsolete_wal = list(recovered.wal_segments)
        self._history = self._begin(
            HISTORY, 0, recovered.history_name, recovered.history_valid_bytes
        )
        self.segments.append(HistorySegment(self._history.path, recovered.last_update + 1))
        self.publish(recovered.missing)
        self._syncer = Syncer()
        self.commit()
        if crash_points.armed:
            crash_points.reach("aggregator.snapshot_written")

    # --- appending -----------------------------------------------------------------------

    def append(self, entry: Entry) -> None:
        """Add an entry to the next commit."""
        kind, payload = encode_entry(entry)
        self._wal_buffer.append(encode_record(kind, 0, payload))

    def publish(self, publications: list[Publication]) -> None:
        """Add history entries to the next commit, with the layouts that they need."""
        for sequence, entry in publications:
            layout = -1
            if isinstance(entry, Update | Supplement):
                layout = entry.layout
                if layout not in self._layouts_in_segment:
                    self._layouts_in_segment.add(layout)
                    self._history_buffer.append(self._layout_record(layout))
            data = encode_record(KIND_OF[type(entry)], sequence, encode_payload(entry))
            self._history_buffer.append(data)
            self._appended_update = sequence
            self._remember(TailRecord(sequence, layout, data))

    @property
    def has_uncommitted(self) -> bool:
        """Whether a commit has something to write."""
        return bool(self._wal_buffer or self._history_buffer)

    @property
    def uncommitted_bytes(self) -> int:
        """What waits for the next commit, while the disk is full for instance."""
        return sum(map(len, self._wal_buffer)) + sum(map(len, self._history_buffer))

    def commit(self) -> None:
        """Write what was appended. Raises ``StorageFullError`` or ``OSError``; a later call
        tries the rest again."""
        if self._wal_buffer:
            self._wal.append(b"".join(self._wal_buffer))
            self._wal_buffer.clear()
            if crash_points.armed:
                crash_points.reach("aggregator.wal_written")
        if self._history_buffer:
            self._history.append(b"".join(self._history_buffer))
            self._history_buffer.clear()
        self.committed_update = self._appended_update
        self._retire_obsolete_wal()
        self._syncer.dirty(self._wal, self._history)
        if self._wal.size_bytes > WAL_SEGMENT_BYTES:
            self._rotate_wal()
        if self._history.size_bytes > HISTORY_SEGMENT_BYTES:
            self._rotate_history()

    # --- durability ----------------------------------------------------------------------

    def start_sync(self, mark: object) -> bool:
        """Sync all that is committed, in the helper thread; ``mark`` comes back when it is
        done. False while a sync runs or nothing is dirty."""
        return self._syncer.start(mark)

    def finished_sync(self) -> object | None:
        """The mark of a sync that has finished since the last call. Raises ``OSError`` of it."""
        mark = self._syncer.finished()
        if mark is not None:
            for path in self._syncer.take_removable():
                path.unlink(missing_ok=True)
                if crash_points.armed:
                    crash_points.reach("aggregator.segment_deleted")
        return mark

    @property
    def is_syncing(self) -> bool:
        """Whether a sync is under way."""
        return self._syncer.is_busy

    def close(self) -> None:
        """Commit, sync and close. Raises ``StorageFullError`` or ``OSError``."""
        try:
            self.commit()
        finally:
            self._syncer.close()
            for segment in (self._wal, self._history):
                if not segment.closed:
                    segment.fdatasync()
                    segment.close()

    # --- segments ------------------------------------------------------------------------

    def _begin(
        self, prefix: str, number: int, previous_name: str, previous_valid_bytes: int
    ) -> SegmentWriter:
        path = self._bus_dir / segment_name(prefix, self.epoch.counter, number)
        segment = SegmentWriter.create(path)
        header = SegmentHeader(
            SEGMENT_FORMAT_VERSION,
            prefix,
            self.epoch,
            number,
            previous_name,
            previous_valid_bytes,
        )
        segment.append(encode_segment_header(header))
        _sync_directory(self._bus_dir)
        if crash_points.armed:
            crash_points.reach("aggregator.segment_created")
        return segment

    def _buffer_snapshot(self) -> bool:
        snapshot = self.state.snapshot()
        if len(snapshot) > MAX_PAYLOAD_BYTES:
            # The older segments stay and are folded again; correct, only slower.
            return False
        self._wal_buffer.insert(0, encode_record(EntryKind.SNAPSHOT, 0, snapshot))
        return True

    def _rotate_wal(self) -> None:
        old = self._wal
        self._wal = self._begin(WAL, _number(old.path) + 1, old.path.name, old.size_bytes)
        self._syncer.retire(old)
        if self._buffer_snapshot():
            known = list_segments(self._bus_dir, WAL)
            self._obsolete_wal = [path for path in known if path != self._wal.path]
            self._wal.append(b"".join(self._wal_buffer))
            self._wal_buffer.clear()
            if crash_points.armed:
                crash_points.reach("aggregator.snapshot_written")
        self._retire_obsolete_wal()
        self._syncer.dirty(self._wal, self._history)

    def _rotate_history(self) -> None:
        old = self._history
        self._history = self._begin(HISTORY, _number(old.path) + 1, old.path.name, old.size_bytes)
        self.segments.append(HistorySegment(self._history.path, self._appended_update + 1))
        self._layouts_in_segment.clear()
        self._syncer.retire(old)
        self._syncer.dirty(self._wal, self._history)

    def _retire_obsolete_wal(self) -> None:
        """Older wal segments may go once the snapshot that replaces them is on the disk."""
        if self._obsolete_wal:
            self._syncer.remove_after_sync(self._obsolete_wal)
            self._obsolete_wal = []

    def _layout_record(self, layout: int) -> bytes:
        tags = self.state.data.update_layouts[layout]
        payload = encode_payload(UpdateLayout(layout, tags))
        return encode_record(RecordKind.UPDATE_LAYOUT, 0, payload)

    def _remember(self, record: TailRecord) -> None:
        self.tail.append(record)
        self._tail_bytes += len(record.data)
        while self._tail_bytes > TAIL_BYTES and len(self.tail) > 1:
            self._tail_bytes -= len(self.tail.popleft().data)


def _number(path: Path) -> int:
    return int(path.name.rsplit("-", 1)[1])


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
