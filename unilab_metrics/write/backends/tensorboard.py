"""TensorBoard event files, written directly: no queue, no thread, nothing left in a buffer.

A flush is one ``os.write`` of the events of some updates and a mark with the update sequence
that they reach to. What lies behind the last mark when the writer starts was torn off by a
kill: it is cut away and written again, into a new file, because a reader that met a torn
record never reads past it. ``EventEncoder`` says how tags and restarts are written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unilab_metrics import crash_points
from unilab_metrics.errors import StorageError, why
from unilab_metrics.storage.segments import SegmentWriter
from unilab_metrics.subscribe.history import HistoryReader
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_metrics.write.backends.base import BackendError
from unilab_metrics.write.backends.event_encoding import (
    EventEncoder,
    file_version_event,
    mark_event,
)
from unilab_metrics.write.backends.event_files import create_file, find_mark, own_files
from unilab_metrics.write.backends.event_records import frame
from unilab_metrics.write.position import Position
from unilab_metrics.write.selection import Selection

if TYPE_CHECKING:
    from unilab_metrics.subscribe.history import HistoryRecord

_NS_PER_S = 1_000_000_000


class TensorBoardBackend:
    """Implements ``Backend`` in a run directory, where the event files lie themselves.

    ``log_interval``: write the iterations that it divides, and the last one. ``clock_unix_ns``
    stamps file names and marks; values carry the time of their update.
    """

    name = "tensorboard"

    def __init__(
        self,
        run_dir: Path,
        *,
        log_interval: int = 1,
        clock_unix_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._run_dir = run_dir
        self._log_interval = log_interval
        self._clock_unix_ns = clock_unix_ns
        self._encoder = EventEncoder()
        self._selection = Selection(Position(), log_interval)
        self._held = Position()
        self._file: SegmentWriter | None = None
        self._pending: list[bytes] = []
        self._pending_bytes = 0

    @property
    def update(self) -> int:
        """Last update sequence that the event files hold."""
        return self._held.update

    @property
    def pending_bytes(self) -> int:
        """Encoded and not handed to the operating system yet."""
        return self._pending_bytes

    @property
    def path(self) -> Path | None:
        """The file that is written to; there is none before the first flush."""
        return self._file.path if self._file else None

    def open(self, journal: str = "") -> int:
        """See ``Backend``; cuts our newest files after their last mark. Where that had passed
        over updates that the history has again by now, after the last one before them."""
        try:
            position = self._cut(lambda _: True)
            lost = position.lost
            if lost and position.journal == journal and _is_there(self._run_dir, lost):
                position = self._cut(lambda mark: mark.journal != journal or mark.update < lost)
        except OSError as error:
            raise BackendError(error.filename or self._run_dir, why(error)) from error
        self._held = position.of_journal(journal)
        self._selection = Selection(self._held, self._log_interval)
        return min(self._held.update, self._held.replay)

    def _cut(self, counts: Callable[[Position], bool]) -> Position:
        for path in reversed(own_files(self._run_dir)):
            marked = find_mark(path, counts)
            if marked.end < marked.size_bytes:
                os.truncate(path, marked.end)
            if marked.position is not None:
                return marked.position
        return Position()

    def write(self, records: Sequence[HistoryRecord]) -> None:
        """See ``Backend``; only encodes."""
        encode = self._encoder.encode
        pending = self._pending
        for record in records:
            for item in self._selection.take(record):
                for event in encode(item):
                    data = frame(event)
                    pending.append(data)
                    self._pending_bytes += len(data)

    def flush(self) -> None:
        """See ``Backend``; hands the data to the operating system and does not wait for the
        disk: after a power loss the mark tells what is there."""
        position = self._selection.position
        if position == self._held and not self._pending:
            return
        now_unix_ns = self._clock_unix_ns()
        mark = frame(mark_event(position, now_unix_ns))
        try:
            if self._file is None:
                self._file = create_file(self._run_dir, now_unix_ns // _NS_PER_S)
                if crash_points.armed:
                    crash_points.reach("writer.file_created")
            head = b"" if self._file.size_bytes else frame(file_version_event(now_unix_ns))
            self._file.append(b"".join((head, *self._pending, mark)))
        except StorageError as error:
            raise BackendError(error.path, error.reason) from error
        except OSError as error:
            path = self._file.path if self._file else self._run_dir
            raise BackendError(path, why(error)) from error
        self._pending.clear()
        self._pending_bytes = 0
        self._held = position
        if crash_points.armed:
            crash_points.reach("writer.flushed")

    def not_written(self) -> dict[str, int]:
        """See ``Backend``."""
        counts = {
            "values of an earlier attempt": self._selection.stale_values,
            "blobs whose rest never came": self._selection.given_up_blobs,
            "malformed histograms": self._encoder.refused,
        }
        return {what: count for what, count in counts.items() if count}

    def close(self) -> None:
        """See ``Backend``."""
        try:
            self.flush()
        finally:
            if self._file is not None:
                self._file.close()
                self._file = None


def _is_there(run_dir: Path, update: int) -> bool:
    """Whether the history has this update."""
    with HistoryReader(bus_directory(run_dir), update - 1) as reader:
        return any(record.sequence == update for record in reader.poll(1))
