"""A spool that cannot be made when its process starts, and is tried again.

Meanwhile calls are counted, as is known to the run: what is said only once (definitions,
events, the goodbye) waits in memory and is sent like all else, and batches tell the counts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from unilab_metrics.errors import StorageError
from unilab_metrics.publish import forking, losses
from unilab_metrics.publish.losses import Losses
from unilab_metrics.publish.spool import Spool
from unilab_metrics.publish.spool_files import SpoolFiles
from unilab_metrics.storage.filesystem import private_directory
from unilab_schema.codec import RecordKind
from unilab_schema.identity import Identity

MAX_SAID_BYTES = 256 * 1024
"""Of what is said only once, while it waits in memory."""
RETRY_NS = 1_000_000_000
RETRY_AT_MOST_NS = 15_000_000_000
_SAID_ONCE = frozenset({RecordKind.DEFINITION, RecordKind.EVENT, RecordKind.DROPS, RecordKind.END})


class LateSpool(Spool):
    """``inactive`` is :data:`losses.UNAVAILABLE` until it is made."""

    def __init__(
        self,
        identity: Identity,
        counted: Losses,
        make_place: Callable[[], tuple[int, int]],
        reason: str,
    ) -> None:
        """``make_place``: make the directory that is to hold the spool; bytes of a segment, and
        the quota. ``reason``: why that, or the spool, could not be made."""
        self._prepare(Path(identity.spool_path), identity, counted)
        self._make_place = make_place
        self._retry_ns, self._tried_ns = RETRY_NS, 0
        self.inactive = losses.UNAVAILABLE
        self.trouble = self.last_trouble = reason
        self._warning = f"metrics of this process are not logged: {reason}"
        self.files = SpoolFiles(self.directory, identity, in_memory=True, removed=self._renew_lease)
        forking.watch(self)

    def _says(self, kind: int) -> bool:
        is_small = self.files.current.size_bytes < MAX_SAID_BYTES or kind == RecordKind.END
        return self.inactive == losses.UNAVAILABLE and kind in _SAID_ONCE and is_small

    def try_again(self, now_ns: int) -> None:
        """Make it, if it is time for another try."""
        if self.inactive != losses.UNAVAILABLE or self.has_end:
            return
        self._tried_ns = self._tried_ns or now_ns
        if now_ns - self._tried_ns < self._retry_ns:
            return
        self._tried_ns, self._retry_ns = now_ns, min(2 * self._retry_ns, RETRY_AT_MOST_NS)
        try:
            self._begin()
        except (OSError, StorageError) as error:
            self.losses.note(error)

    def _begin(self) -> None:
        segment_bytes, quota_bytes = self._make_place()
        private_directory(self.directory)
        lease = self._make_lease()
        try:
            with self._lock:
                if self._writing:
                    self._recover()
                self.files.begin(self.last + 1, segment_bytes, quota_bytes)
                self._lease = lease
                self.trouble = self._warning = self.inactive = ""
        except BaseException:
            lease.release()
            raise
