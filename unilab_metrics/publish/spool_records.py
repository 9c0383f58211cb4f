"""One record after another into a spool's files: its sequence, and what does not fit.

Not for several threads at once: :class:`~unilab_metrics.publish.spool.Spool` says who may write.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns, time_ns
from typing import Any

from unilab_metrics import crash_points
from unilab_metrics.errors import why
from unilab_metrics.publish import losses
from unilab_metrics.publish.losses import Losses
from unilab_metrics.publish.spool_files import SpoolFiles
from unilab_metrics.storage.records import encode_record
from unilab_schema.codec import RecordKind

_OWN_KINDS = frozenset({RecordKind.DROPS, RecordKind.END})
"""Records that are no caller's: that they do not fit is no loss of a call."""

PayloadAt = Callable[..., bytes]
"""(monotonic ns, wall clock ns, arguments...) of the append to the record's payload."""


class SpoolRecords:
    """Base of :class:`~unilab_metrics.publish.spool.Spool`, which makes ``files`` too."""

    files: SpoolFiles

    def __init__(self, directory: Path, counted: Losses) -> None:
        self.directory = directory
        self.losses = counted
        """What was not appended, by reason."""
        self.last = 0
        """The highest sequence that is completely in the spool."""
        self.has_end = False
        """Whether the end record is in; nothing may follow it."""
        self.trouble: str = ""
        """Why the last record was not taken, with the path; empty while records are taken."""
        self.last_trouble: str = ""
        """The last of these texts."""
        self.end_waits: PayloadAt | None = None
        """The end record that there is no room for yet."""
        self.last_words: PayloadAt | None = None
        """An event that goes before the end record, and like it is kept beyond the quota."""
        self._writing = False

    def _write(
        self, kind: int, payload_at: PayloadAt, args: tuple[Any, ...], announcement: bool
    ) -> bool:
        if self.has_end:
            self.losses.count(losses.CLOSED)
            return False
        if kind == RecordKind.END:
            self.has_end = True
            self.end_waits = payload_at
            return self._write_end(payload_at)
        return self._write_record(kind, payload_at, args, announcement)

    def _write_end(self, payload_at: PayloadAt) -> bool:
        words = self.last_words
        if words is not None and self._write_record(RecordKind.EVENT, words, (), is_last=True):
            self.last_words = None
        return self._write_record(RecordKind.END, payload_at, (), is_last=True)

    def _write_record(
        self,
        kind: int,
        payload_at: PayloadAt,
        args: tuple[Any, ...],
        announcement: bool = False,
        is_last: bool = False,
    ) -> bool:
        try:
            if self._writing:
                self._recover()
            mono_ns = monotonic_ns()
            payload = payload_at(mono_ns, time_ns(), *args)
            record = encode_record(kind, self.last + 1, payload)
            files = self.files
            segment = files.current
            if segment.size_bytes + len(record) > files.room_until:
                segment = files.make_room(len(record), self.last + 1)
                if segment is None and not is_last:
                    quota = f"{self.directory}: the quota of this spool is used up"
                    self._refused(kind, losses.SPOOL_QUOTA, quota)
                    return False
                segment = segment or files.current
            self._writing = True
            segment.append(record, mono_ns)
            self.last += 1
            self._writing = False
        except OSError as error:
            if error.errno == errno.EFBIG:
                self.files.prefer_new_segment()
            text = f"{self.directory}: {why(error)}"
            self._refused(RecordKind.END if is_last else kind, losses.reason_of(error), text)
            return False
        except ValueError as error:
            self.losses.note(error)
            self.losses.count(losses.OVERSIZE)
            return False
        if self.trouble or kind == RecordKind.END:
            self.trouble = ""
            self.end_waits = None if kind == RecordKind.END else self.end_waits
        if announcement:
            self.files.repeat(kind, payload)
        if crash_points.armed:
            crash_points.reach("publisher.appended")
        return True

    def _refused(self, kind: int, reason: str, text: str) -> None:
        if text != self.trouble:
            self.trouble = self.last_trouble = text
            self.losses.note(OSError(text))
        if kind not in _OWN_KINDS:
            self.losses.count(reason)

    def _recover(self) -> None:
        """An exception of a signal handler, or of the disk, ended an append anywhere in it."""
        self.files.current.discard_uncounted()
        self.last = self.files.current.last
        self._writing = False
