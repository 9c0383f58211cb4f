"""fdatasync in a thread of its own: it takes 4 ms as a rule and stalls beyond 100 ms."""

from __future__ import annotations

import queue
import threading
from contextlib import suppress
from pathlib import Path

from unilab_metrics.storage.segments import SegmentWriter

_Job = list[SegmentWriter]


class Syncer:
    """Syncs the segments of one journal, oldest first. All calls come from one thread."""

    def __init__(self) -> None:
        self._dirty: list[SegmentWriter] = []
        self._remove: list[Path] = []
        self._removing: list[Path] = []
        self._removable: list[Path] = []
        self._mark: object | None = None
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[OSError | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="journal-sync", daemon=True)
        self._thread.start()

    @property
    def is_busy(self) -> bool:
        """Whether a sync is under way."""
        return self._mark is not None

    def dirty(self, *segments: SegmentWriter) -> None:
        """The segments have data that is not on the disk; they are synced in this order."""
        for segment in segments:
            if segment not in self._dirty:
                self._dirty.append(segment)

    def forget(self, segment: SegmentWriter) -> None:
        """Close a segment whose data lies elsewhere too. Not while a sync runs."""
        self._dirty = [known for known in self._dirty if known is not segment]
        segment.close()

    def remove_after_sync(self, paths: list[Path]) -> None:
        """The paths are obsolete once all that is dirty now is on the disk."""
        self._remove += paths

    def start(self, mark: object) -> bool:
        """Begin a sync unless one runs or nothing is dirty."""
        if self.is_busy or not self._dirty:
            return False
        self._mark = mark
        self._removing = self._remove
        self._jobs.put(self._dirty)
        self._dirty, self._remove = [], []
        return True

    def finished(self) -> object | None:
        """The mark of the sync that has just finished. Raises its ``OSError``."""
        if not self.is_busy:
            return None
        try:
            error = self._results.get_nowait()
        except queue.Empty:
            return None
        mark, self._mark = self._mark, None
        if error is not None:
            raise error
        self._removable += self._removing
        return mark

    def take_removable(self) -> list[Path]:
        """Paths that a finished sync has made obsolete."""
        removable, self._removable = self._removable, []
        return removable

    def close(self) -> bool:
        """Finish the running sync, sync what is dirty, and end the thread; whether all of that
        went well."""
        self._jobs.put(self._dirty)
        self._jobs.put(None)
        self._thread.join()
        results: list[OSError | None] = []
        with suppress(queue.Empty):
            while True:
                results.append(self._results.get_nowait())
        return not any(results)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            error: OSError | None = None
            try:
                for segment in job:
                    segment.fdatasync()
            except OSError as failure:
                error = failure
            self._results.put(error)
