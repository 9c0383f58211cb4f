"""A process's outgoing records on its node: what ``log()`` has returned from lies here.

Everything that carries data (frames, layouts, events, drops, the end) has its own sequence,
from 1 without a hole. Each segment begins with the identity and a copy of the layouts and tag
names so far, so that it can be read alone. The copies have sequence 0: they are no part of the
order, are sent only after a gap, and may be taken any number of times. A ``Gap`` record has
the last sequence that it stands for.

Any thread may append, also from a signal handler; one thread reads (the shipper).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import get_ident
from typing import Any, overload

from unilab_metrics.publish import forking, losses
from unilab_metrics.publish.losses import Losses
from unilab_metrics.publish.spool_files import QUOTA_BYTES, SEGMENT_BYTES, SpoolFiles
from unilab_metrics.publish.spool_records import PayloadAt, SpoolRecords
from unilab_metrics.publish.wakeup import Wakeup
from unilab_metrics.publish.warning import warn_caller
from unilab_metrics.storage.filesystem import private_directory
from unilab_metrics.storage.lease import Lease
from unilab_metrics.storage.spool_owner import RunFile, SpoolOwner
from unilab_metrics.storage.spool_reader import LEASE_NAME
from unilab_metrics.wording import counted
from unilab_schema.identity import Identity


class Spool(SpoolRecords):
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
        self._prepare(directory, identity, counted)
        private_directory(directory)
        self._lease = lease = self._make_lease()
        try:
            self.files = SpoolFiles(
                directory,
                identity,
                segment_bytes=segment_bytes,
                quota_bytes=quota_bytes,
                removed=self._renew_lease,
            )
        except BaseException:
            lease.release()
            raise
        forking.watch(self)

    def _prepare(self, directory: Path, identity: Identity, counted: Losses) -> None:
        super().__init__(directory, counted)
        self.identity = identity
        self.inactive = ""
        """Why nothing is appended any more (a reason of ``losses``); empty while all is well."""
        self.inside: set[int] = set()
        """Threads that are between taking a stamp and counting its record."""
        self._sleeper: Wakeup | None = None
        self._lock, self._held_for_fork = threading.Lock(), False
        self._waiting: deque[tuple[int, PayloadAt, tuple[Any, ...], bool]] = deque()
        self._warning = ""
        self._owner = SpoolOwner(pid=identity.pid)
        self._lease: Lease | None = None

    @property
    def is_mute(self) -> bool:
        """Whether not even the process's goodbye can be said."""
        return self.inactive not in {"", losses.UNAVAILABLE}

    def _says(self, kind: int) -> bool:
        """Whether a record of this kind is taken although nothing else is."""
        del kind
        return False

    def try_again(self, now_ns: int) -> None:
        """Make what could not be made before. For the thread that reads, about once a second."""

    def wake_with(self, sleeper: Wakeup | None) -> None:
        """Who waits for appends."""
        self._sleeper = sleeper

    @overload
    def append(
        self, kind: int, payload_at: Callable[[int, int], bytes], *, announcement: bool = ...
    ) -> bool: ...

    @overload
    def append(self, kind: int, payload_at: PayloadAt, args: tuple[Any, ...]) -> bool: ...

    def append(
        self,
        kind: int,
        payload_at: PayloadAt,
        args: tuple[Any, ...] = (),
        *,
        announcement: bool = False,
    ) -> bool:
        """Take the next sequence and write the record with one ``os.write``.

        True when it is in the spool, or will be: a call that finds its own thread inside (a
        signal handler, a finaliser) leaves its record to the call that it interrupted.
        ``announcement``: later segments repeat it. Stamps never fall with the sequence.
        """
        if self.inactive and not self._says(kind):
            self.refuse()
            return False
        me = get_ident()
        inside = self.inside
        if me in inside:
            self._waiting.append((kind, payload_at, args, announcement))
            return True
        try:
            # Inside the try: a signal may raise as soon as any call has returned.
            inside.add(me)
            with self._lock:
                accepted = self._write(kind, payload_at, args, announcement)
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

    def use_room(self, durable: int) -> None:
        """While nothing more fits: give back the room of what is durable, if that is all there
        is, and append the end record if it waits. For the thread that reads."""
        if not (self.trouble or self.end_waits) or durable < self.last:
            return
        with self._lock:
            if durable < self.last or self.inactive:
                return
            try:
                self.files.restart(self.last + 1)
                self._writing = False
            except OSError as error:
                self.losses.note(error)
                return
            self.trouble = ""
            if self.end_waits is not None:
                self._write_end(self.end_waits)

    def belongs_to(self, run: RunFile) -> None:
        """Write down whose spool it is, for the time when neither is there any more."""
        self._owner = SpoolOwner(pid=self.identity.pid, run=run)
        with suppress(OSError):
            if self._lease is not None:
                self._lease.rewrite(self._owner.encode())

    def reclaim(self, acked: int) -> str:
        """Find again what somebody in this process has closed as if it were their own. What to
        say of it, empty if nothing was closed. For the thread that reads; ``acked``: what needs
        no file any more. Raises ``OSError`` and ``StorageError`` while that does not work."""
        lease = self._lease
        if self.inactive or lease is None or (self.files.is_ours and lease.is_intact):
            return ""
        with self._lock:
            lost = self.files.reclaim(acked, self.last)
            if not lease.is_intact:
                self._renew_lease()
        text = "this process has closed a descriptor that was not its own"
        return f"{self.directory}: {text}; {counted(lost, 'record was', 'records were')} lost"

    def mend(self, acked: int) -> str:
        """Go on in another file if somebody has shortened one. What to say of it, empty if nobody
        has. For the thread that reads; ``acked``: what needs no file any more. Raises ``OSError``
        and ``StorageError`` while that does not work."""
        files = self.files
        if self.inactive or not files.is_short:
            return ""
        with self._lock:
            # Only a look under the lock tells a shortened file from one that is being mended.
            if self._writing:
                self._recover()
            files.leave_short(self.last)
        count, lost = files.index_short(acked)
        text = f"{self.directory}: somebody has shortened a file of this spool"
        return f"{text}; {lost} unconfirmed records are gone" if count else ""

    def _renew_lease(self) -> None:
        # Our own entry in its books would refuse us.
        self._release(unlink=False)
        self._lease = self._make_lease()

    def _release(self, *, unlink: bool) -> None:
        if self._lease is not None:
            self._lease.release(unlink=unlink)

    def _make_lease(self) -> Lease:
        return Lease.create(self.directory, LEASE_NAME, self._owner.encode())

    def sent_before_ns(self, sent: int, now_ns: int, earlier_ns: int) -> int:
        """The watermark: every frame stamped before it has a sequence up to ``sent``.

        ``now_ns`` must have been read before the call; ``earlier_ns`` is the last watermark,
        which holds while some thread is in the middle of an append.
        """
        if sent < self.last:
            return self.files.stamp_ns(sent + 1)
        if self.inside:
            return earlier_ns
        return now_ns if sent >= self.last else earlier_ns

    def close(self, *, remove: bool) -> None:
        """Append nothing more. ``remove``: delete the spool, everything is durable; otherwise
        it stays as a leftover that another process adopts. Idempotent."""
        if self.is_mute:
            return
        with self._lock:
            is_there = not self.inactive
            self.inactive = losses.CLOSED
            forking.forget(self)
            self.files.close(remove=remove)
            self._release(unlink=remove)
            if not is_there:
                with suppress(OSError):
                    self.directory.rmdir()  # as much of it as could be made
            elif remove:
                try:
                    self.directory.rmdir()
                except FileNotFoundError:
                    return  # the aggregator was faster
                except OSError as error:
                    self.losses.note(error)

    def refuse(self) -> None:
        """Count a call to an inactive spool; the first one in a forked child warns."""
        self.losses.count(self.inactive)
        text, self._warning = self._warning, ""
        if text:
            warn_caller(text)

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
        self._warning = forking.FORKED_TEXT
        self._sleeper = None
        self.losses.after_fork_in_child()
        self.files.close(remove=False)
        self._release(unlink=False)
