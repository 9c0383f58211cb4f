"""A process's outgoing records on its node: what ``log()`` has returned from lies here.

Everything that carries data (frames, layouts, events, drops, the end) has its own sequence,
from 1 without a hole. Each segment begins with the identity and a copy of the layouts and tag
names so far, so that it can be read alone. The copies have sequence 0: they are no part of the
order, are sent only after a gap, and may be taken any number of times. A ``Gap`` record has
the last sequence that it stands for. ``aggregate.receiver.accept`` is the other side of this.

Any thread may append, also from a signal handler; one thread reads (the shipper).
"""

from __future__ import annotations

import errno
import os
import threading
import warnings
from collections import deque
from collections.abc import Callable
from pathlib import Path
from threading import get_ident
from time import monotonic_ns, time_ns

from unilab_metrics.publish import forking, losses
from unilab_metrics.publish.losses import Losses
from unilab_metrics.publish.spool_segment import SpoolSegment
from unilab_metrics.publish.wakeup import Wakeup
from unilab_metrics.storage.filesystem import private_directory
from unilab_metrics.storage.lease import Lease
from unilab_metrics.storage.records import encode_record
from unilab_metrics.storage.segments import segment_name
from unilab_metrics.storage.spool_reader import (
    LEASE_NAME,
    SPOOL_EPOCH,
    SPOOL_PREFIX,
    SpoolBatch,
    pass_over_damage,
)
from unilab_schema.codec import RecordKind, encode_payload
from unilab_schema.identity import Identity

SEGMENT_BYTES = 8 * 1024 * 1024
QUOTA_BYTES = 256 * 1024 * 1024
_MOST_ANNOUNCED_BYTES = 256 * 1024
"""Copies of announcements that a repaired batch may carry and still be one message."""
_FULL = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT})
_FORKED_TEXT = (
    "this process was forked from one that publishes metrics; nothing is logged here until it "
    "calls connect()"
)

PayloadAt = Callable[[int, int], bytes]
"""(monotonic ns, wall clock ns) of the append to the record's payload."""


class Spool:
    """The spool of one incarnation. Raises ``StorageError`` and ``OSError`` when it cannot be
    made; afterwards a record that does not fit is counted in ``losses``, never raised."""

    def __init__(
        self,
        directory: Path,
        identity: Identity,
        counted: Losses,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        quota_bytes: int = QUOTA_BYTES,
    ) -> None:
        """``directory``: a new one for this incarnation, below the launch's."""
        self.directory = directory
        self.identity = identity
        self.inactive = ""
        """Why nothing is appended any more (a reason of ``losses``); empty while all is well."""
        self.last = 0
        """The highest sequence that is completely in the spool."""
        self.inside: set[int] = set()
        """Threads that are between taking a stamp and counting its record."""
        self.losses = counted
        """What was not appended, by reason."""
        self._sleeper: Wakeup | None = None
        self._lock = threading.Lock()
        self._held_for_fork = False
        self._waiting: deque[tuple[int, PayloadAt, bool]] = deque()
        self._writing = False
        self._warning = ""
        self._segment_bytes = segment_bytes
        self._rotate_at = segment_bytes
        self._quota_bytes = quota_bytes
        self._closed_bytes = 0
        self._trimmed_bytes = 0
        private_directory(directory)
        self._lease = Lease.create(directory, LEASE_NAME, str(os.getpid()).encode())
        self._preamble = [encode_record(RecordKind.IDENTITY, 0, encode_payload(identity))]
        self._number = 0
        try:
            self._segment = self._new_segment()
        except BaseException:
            self._lease.release()
            raise
        self._segments = [self._segment]
        forking.watch(self)

    def wake_with(self, sleeper: Wakeup | None) -> None:
        """Who waits for appends."""
        self._sleeper = sleeper

    def append(self, kind: int, payload_at: PayloadAt, *, announcement: bool = False) -> bool:
        """Take the next sequence and write the record with one ``os.write``.

        True when it is in the spool, or will be: a call that finds its own thread inside (a
        signal handler, a finaliser) leaves its record to the call that it interrupted.
        ``announcement``: later segments repeat it. Stamps never fall with the sequence.
        """
        if self.inactive:
            self.refuse()
            return False
        me = get_ident()
        inside = self.inside
        if me in inside:
            self._waiting.append((kind, payload_at, announcement))
            return True
        try:
            # Inside the try: a signal may raise as soon as any call has returned.
            inside.add(me)
            with self._lock:
                accepted = self._write(kind, payload_at, announcement)
                while self._waiting:
                    self._write(*self._waiting.popleft())
        finally:
            inside.discard(me)
        # A handler may have come between the last look at the queue and the line above.
        while self._waiting and me not in inside:
            self._append_waiting(me)
        sleeper = self._sleeper
        if sleeper is not None and sleeper.armed:
            sleeper.wake()
        return accepted

    def _append_waiting(self, me: int) -> None:
        try:
            self.inside.add(me)
            with self._lock:
                while self._waiting:
                    self._write(*self._waiting.popleft())
        finally:
            self.inside.discard(me)

    def _write(self, kind: int, payload_at: PayloadAt, announcement: bool) -> bool:
        try:
            if self._writing:
                self._recover()
            mono_ns = monotonic_ns()
            payload = payload_at(mono_ns, time_ns())
            record = encode_record(kind, self.last + 1, payload)
            segment = self._segment
            size = segment.size_bytes + len(record)
            if size > self._rotate_at:
                segment = self._rotate()
                size = segment.size_bytes + len(record)
            if self._closed_bytes + size - self._trimmed_bytes > self._quota_bytes:
                self.losses.count(losses.SPOOL_QUOTA)
                return False
            self._writing = True
            segment.append(record, mono_ns)
            self.last += 1
            self._writing = False
        except OSError as error:
            self.losses.note(error)
            full = error.errno in _FULL
            self.losses.count(losses.SPOOL_FULL if full else losses.SPOOL_ERROR)
            return False
        except ValueError:
            self.losses.count(losses.OVERSIZE)
            return False
        if announcement:
            self._preamble.append(encode_record(kind, 0, payload))
        return True

    def _recover(self) -> None:
        """An exception of a signal handler, or of the disk, ended an append anywhere in it."""
        self._segment.discard_uncounted()
        self.last = self._segment.last
        self._writing = False

    def _rotate(self) -> SpoolSegment:
        full = self._segment
        try:
            segment = self._new_segment()
        except OSError:
            # No file can be made here; the one that is open may still have room.
            self._rotate_at = full.size_bytes + self._segment_bytes // 8
            return full
        self._rotate_at = max(self._segment_bytes, 2 * segment.size_bytes)
        self._closed_bytes += full.size_bytes
        self._segment = segment
        self._segments.append(segment)
        return segment

    def _new_segment(self) -> SpoolSegment:
        self._number += 1
        name = segment_name(SPOOL_PREFIX, SPOOL_EPOCH, self._number)
        return SpoolSegment(self.directory / name, self.last + 1, b"".join(self._preamble))

    @property
    def first(self) -> int:
        """The lowest sequence that the spool still holds; ``last + 1`` if it is empty."""
        return self._segments[0].first

    def take(self, after: int, upto: int, max_bytes: int, *, verify: bool = False) -> SpoolBatch:
        """The records from ``after + 1`` to at most ``upto``, verbatim; there must be one.

        ``verify``: check each one, and pass over what cannot be read with a gap. Bytes that
        the file system does not give back are passed over in any case.
        """
        first = self.first
        if after + 1 < first:
            return SpoolBatch(pass_over_damage(b"", after, first - 1), first - 1)
        segment = self._segment_of(after + 1)
        start, end, last = segment.range_after(after, upto, max_bytes)
        data = segment.read(start, end)
        if verify or len(data) < end - start:
            data = pass_over_damage(data, after, last, self._announcements())
        return SpoolBatch(data, last)

    def _announcements(self) -> list[bytes]:
        copies = self._preamble[1:]
        return copies if sum(map(len, copies)) <= _MOST_ANNOUNCED_BYTES else []

    def _segment_of(self, sequence: int) -> SpoolSegment:
        return next(s for s in reversed(list(self._segments)) if s.first <= sequence)

    def sent_before_ns(self, sent: int, now_ns: int, earlier_ns: int) -> int:
        """The watermark: every frame stamped before it has a sequence up to ``sent``.

        ``now_ns`` must have been read before the call; ``earlier_ns`` is the last watermark,
        which holds while some thread is in the middle of an append.
        """
        if sent < self.last:
            sequence = max(sent + 1, self.first)
            segment = self._segment_of(sequence)
            return segment.stamps[sequence - segment.first]
        if self.inside:
            return earlier_ns
        return now_ns if sent >= self.last else earlier_ns

    def trim(self, durable: int) -> None:
        """Delete the segments whose every record is durable in the journal."""
        while len(self._segments) > 1 and self._segments[0].last <= durable:
            segment = self._segments.pop(0)
            self._trimmed_bytes += segment.size_bytes
            segment.delete()

    def close(self, *, remove: bool) -> None:
        """Append nothing more. ``remove``: delete the spool, everything is durable; otherwise
        it stays as a leftover that another process adopts. Idempotent."""
        if self.inactive:
            return
        with self._lock:
            self.inactive = losses.CLOSED
            forking.forget(self)
            for segment in self._segments:
                if remove:
                    segment.delete()
                else:
                    segment.close()
            self._lease.release(unlink=remove)
            if remove:
                try:
                    self.directory.rmdir()
                except OSError as error:
                    self.losses.note(error)

    def refuse(self) -> None:
        """Count a call to an inactive spool; the first one in a forked child warns."""
        self.losses.count(self.inactive)
        text, self._warning = self._warning, ""
        if text:
            try:
                warnings.warn(text, RuntimeWarning, stacklevel=4)
            except RuntimeWarning:
                # Warnings are errors here, but a training must not end because of us.
                return

    def before_fork(self) -> None:
        """Let no other thread be inside an append while the process is copied."""
        self._held_for_fork = get_ident() not in self.inside
        if self._held_for_fork:
            self._lock.acquire()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        if self._held_for_fork:
            self._lock.release()

    def after_fork_in_child(self) -> None:
        """The files belong to the parent: from here on, count only."""
        self._lock = threading.Lock()
        self.inside = set()
        self._waiting.clear()
        self.inactive = losses.FORKED
        self._warning = _FORKED_TEXT
        self._sleeper = None
        self.losses.after_fork_in_child()
        for segment in self._segments:
            segment.close()
        self._lease.release(unlink=False)
