"""The aggregator's two files: the wal (what was accepted and decided) and the history.

A commit is one write to the wal, then one to the history, so that the history never knows
more than the wal. A helper thread syncs both, the wal first. Opening a journal folds the
wal through the pure state, cuts torn tails by naming the valid length in the next segment's
header, completes the history with what the fold publishes again, and begins a new epoch.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from unilab_metrics import crash_points
from unilab_metrics.aggregate.folding.entries import TWICE, Entry, encode_entry
from unilab_metrics.aggregate.folding.state import AggregatorState, Publication
from unilab_metrics.aggregate.journaling.announced_layouts import AnnouncedLayouts, layout_records
from unilab_metrics.aggregate.journaling.evidence import Durable, durable, write_durable
from unilab_metrics.aggregate.journaling.history_tail import HistorySegment, HistoryTail, TailRecord
from unilab_metrics.aggregate.journaling.journal_file import JournalFile, sync_directory
from unilab_metrics.aggregate.journaling.recovery import Recovered, recover, retire, set_aside
from unilab_metrics.aggregate.journaling.snapshots_due import Snapshots, superfluous
from unilab_metrics.aggregate.journaling.syncing import Syncer
from unilab_metrics.errors import StorageFullError
from unilab_metrics.storage.records import encode_record
from unilab_metrics.storage.segments import SegmentWriter, list_segments, sync_file
from unilab_schema.codec import KIND_OF, encode_payload
from unilab_schema.control import Epoch
from unilab_schema.updates import Supplement, Update

WAL = "wal"
HISTORY = "history"
WAL_SEGMENT_BYTES = 32 * 1024 * 1024
HISTORY_SEGMENT_BYTES = 32 * 1024 * 1024
TAIL_BYTES = 8 * 1024 * 1024
"""Newest history records that are kept in memory to answer subscribers."""


class Journal:
    """Owned by the aggregator's main thread; only the syncs run beside it."""

    def __init__(self, bus_dir: Path) -> None:
        """Open or begin the journal of a run. Raises ``UnknownVersionError``,
        ``DamagedFileError``, ``StorageFullError`` and ``OSError``."""
        self._bus_dir = bus_dir
        recovered = recover(bus_dir)
        self.state: AggregatorState = recovered.state
        self.snapshots = Snapshots(self.state)
        self.damaged_records = recovered.damaged_records
        journal_id = recovered.journal_id or secrets.token_bytes(16)
        self.epoch = Epoch(journal_id, recovered.epoch_counter + 1)
        self.segments: list[HistorySegment] = [
            HistorySegment(*known) for known in recovered.history_segments
        ]
        self.tail = HistoryTail()
        self._wal_buffer: list[bytes] = []
        self._history_buffer: list[bytes] = []
        self._appended_update = recovered.last_update
        self.committed_update = recovered.last_update
        self._uncommitted_bytes = 0
        self._obsolete_wal: list[Path] = []
        self._damaged_wal: list[Path] = []
        self._synced_update = self._marked_update = recovered.last_update
        self._marked: Durable | None = None
        self.renewals = 0
        """How often history entries have moved to another place in the files."""
        self.needs_renewal = False
        """Whether a sync has failed since :meth:`renew` last succeeded."""
        self.rotation_error: Exception | None = None
        """Why the last commit could not begin the next segment, which costs nothing."""
        self.faults = recovered.faults
        """What of the journal was damaged when it was opened, in words."""
        set_aside(recovered)
        self._history = self._begin(HISTORY, recovered.history_name, recovered.history_valid_bytes)
        self._layouts = AnnouncedLayouts(self._history.layouts_in_memory)
        self.segments.append(HistorySegment(self._history.segment.path, recovered.last_update + 1))
        try:
            # Before the wal goes on: only this header says which part of the history counts.
            sync_file(self._history.segment.path)
            self._begin_wal(recovered)
        except (OSError, StorageFullError):
            self._history.abandon()
            raise
        if crash_points.armed:
            crash_points.reach("aggregator.snapshot_written")

    def _begin_wal(self, recovered: Recovered) -> None:
        self._wal = self._begin(WAL, recovered.wal_name, recovered.wal_valid_bytes)
        self._syncer = Syncer()
        try:
            # A wal without its header was then removed or emptied: no loss of power does that.
            sync_file(self._wal.segment.path)
            snapshot = self.snapshots.make()
            if snapshot:
                self._wal.append_apart(snapshot)
                # Of a damaged one the snapshot has all that is known.
                self._damaged_wal = recovered.wal_segments if recovered.damaged_records else []
                self._obsolete_wal = self._damaged_wal or superfluous(
                    recovered.wal_segments, WAL_SEGMENT_BYTES
                )
            self.publish(recovered.missing)
            self.commit()
        except (OSError, StorageFullError):
            self._syncer.close()
            self._wal.abandon()
            raise

    # --- appending -----------------------------------------------------------------------

    def append(self, entry: Entry) -> None:
        """Add an entry to the next commit."""
        kind, payload = encode_entry(entry)
        record = encode_record(kind, 0, payload)
        if kind in TWICE:
            record += record
        self._wal_buffer.append(record)
        self._uncommitted_bytes += len(record)

    def publish(self, publications: list[Publication]) -> None:
        """Add history entries to the next commit, with the layouts that they need."""
        for sequence, entry, tags in publications:
            layout = -1
            if isinstance(entry, Update | Supplement):
                layout = entry.layout
                announcement = self._layouts.use(layout, tags)
                if announcement:
                    self._buffer_history(announcement)
            data = encode_record(KIND_OF[type(entry)], sequence, encode_payload(entry))
            self._buffer_history(data)
            self._appended_update = sequence
            self.tail.remember(TailRecord(sequence, layout, data, tags), TAIL_BYTES)

    def _buffer_history(self, record: bytes) -> None:
        self._history_buffer.append(record)
        self._uncommitted_bytes += len(record)

    @property
    def has_uncommitted(self) -> bool:
        """Whether a commit has something to write."""
        return bool(self._wal_buffer or self._history_buffer)

    @property
    def waiting_bytes(self) -> int:
        """What is kept in memory because it may not be on the disk, or is not even written."""
        unsynced = self._wal.unsynced_bytes + self._history.unsynced_bytes
        return self._uncommitted_bytes + unsynced

    def commit(self) -> None:
        """Write what was appended. Raises ``StorageFullError`` or ``OSError``; a later call
        tries the rest again."""
        if self._wal_buffer:
            self._wal.append(b"".join(self._wal_buffer))
            self._uncommitted_bytes -= sum(map(len, self._wal_buffer))
            self._wal_buffer.clear()
            if crash_points.armed:
                crash_points.reach("aggregator.wal_written")
        if self._history_buffer:
            used = self._layouts.used
            self._history.append(b"".join(self._history_buffer), frozenset(used))
            self._history_buffer.clear()
            used.clear()
            self._uncommitted_bytes = 0
        self.committed_update = self._appended_update
        self._retire_obsolete_wal()
        self._syncer.dirty(self._wal.segment, self._history.segment)
        self._rotate()

    # --- durability ----------------------------------------------------------------------

    def start_sync(self, mark: object) -> bool:
        """Sync all that is committed, in the helper thread; ``mark`` comes back when it is
        done. False while a sync runs or nothing is dirty. Raises ``OSError``."""
        if self._syncer.is_busy:
            return False
        # On a slow disk a sync is under way at every commit.
        self._rotate()
        for file in (self._wal, self._history):
            file.place()
        if not self._syncer.start(mark):
            return False
        self._marked_update = self.committed_update
        self._marked = None if self.has_uncommitted else self._evidence()
        for file in (self._wal, self._history):
            file.mark()
        return True

    def finished_sync(self) -> object | None:
        """The mark of a sync that has finished since the last call. Raises ``OSError`` of it;
        then :meth:`renew` is due."""
        try:
            mark = self._syncer.finished()
        except OSError:
            self.needs_renewal = True
            raise
        if mark is not None:
            self._synced_update = self._marked_update
            for file in (self._wal, self._history):
                file.synced()
            if self._marked is not None:
                write_durable(self._bus_dir, self._marked)
            for path in self._syncer.take_removable():
                retire(path, is_damaged=path in self._damaged_wal)
                if crash_points.armed:
                    crash_points.reach("aggregator.segment_deleted")
        return mark

    def renew(self) -> None:
        """After a sync that failed: write all that it was to cover again, into new files. Not
        while a sync runs. Raises ``StorageFullError`` or ``OSError``; call it again then."""
        self._renew_wal()
        self._renew_history()
        self.needs_renewal = False

    @property
    def is_syncing(self) -> bool:
        """Whether a sync is under way."""
        return self._syncer.is_busy

    def close(self) -> None:
        """Commit, sync and close. Raises ``StorageFullError`` or ``OSError``."""
        try:
            self.commit()
        finally:
            is_durable = self._syncer.close() and not self.needs_renewal
            for segment in (self._wal.segment, self._history.segment):
                if not segment.closed:
                    segment.fdatasync()
                    segment.close()
        if is_durable:
            write_durable(self._bus_dir, self._evidence())

    def _evidence(self) -> Durable:
        """Of what is committed, for when that is on the disk."""
        wal, history, data = self._wal.segment, self._history.segment, self.state.data
        return durable(self.epoch.journal, wal, history, self.committed_update, data)

    # --- segments ------------------------------------------------------------------------

    def _begin(self, prefix: str, previous_name: str, previous_valid_bytes: int) -> JournalFile:
        return JournalFile(
            self._bus_dir,
            prefix,
            self.epoch,
            create=SegmentWriter.create,
            sync_directory=sync_directory,
            previous_name=previous_name,
            previous_valid_bytes=previous_valid_bytes,
        )

    def _rotate(self) -> None:
        """Begin the next segments where they are due; the old ones do for longer if that
        fails."""
        if self._syncer.is_busy or self.needs_renewal:
            return
        self.rotation_error = None
        try:
            is_due = self.snapshots.is_due and self._wal.synced_bytes
            if is_due or self._wal.is_full(WAL_SEGMENT_BYTES):
                self._renew_wal()
            if self._history.is_full(HISTORY_SEGMENT_BYTES):
                self._renew_history()
        except (OSError, StorageFullError) as error:
            self.rotation_error = error

    def _renew_wal(self) -> None:
        snapshot = self.snapshots.make()
        self._syncer.forget(self._wal.renew(after=snapshot))
        if snapshot:
            known = list_segments(self._bus_dir, WAL)
            older = [path for path in known if path != self._wal.segment.path]
            self._obsolete_wal = superfluous(older, WAL_SEGMENT_BYTES)
            if crash_points.armed:
                crash_points.reach("aggregator.snapshot_written")
        self._retire_obsolete_wal()
        self._syncer.dirty(self._wal.segment, self._history.segment)

    def _renew_history(self) -> None:
        needed = self._layouts.needed()
        valid_bytes = self._history.synced_bytes
        self._syncer.forget(self._history.renew(before=layout_records(needed)))
        self._layouts.begin(needed)
        old = self.segments.pop()
        if valid_bytes:
            self.segments.append(old._replace(valid_bytes=valid_bytes))
        self.renewals += 1
        self.segments.append(HistorySegment(self._history.segment.path, self._synced_update + 1))
        self._syncer.dirty(self._wal.segment, self._history.segment)

    def _retire_obsolete_wal(self) -> None:
        """Older wal segments may go once the snapshot that replaces them is on the disk."""
        if self._obsolete_wal:
            self._syncer.remove_after_sync(self._obsolete_wal)
            self._obsolete_wal = []
