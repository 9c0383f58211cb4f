"""Follows a run live, without gaps, over restarts of its aggregator, to the end of its files.

Heads say how far the run is, fetches bring what is missing: a head that got lost costs
nothing. While no aggregator lives, the history files are read instead.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from unilab_metrics.errors import KeyRefusedError
from unilab_metrics.subscribe.connection import BusConnection
from unilab_metrics.subscribe.files import Files
from unilab_metrics.subscribe.history import HistoryRecord
from unilab_metrics.subscribe.position import Position
from unilab_metrics.subscribe.welcome import Admission, await_welcome, taken_out
from unilab_metrics.subscribe.whereabouts import Contact, RunAtAddress, RunOnDisk, Whereabouts
from unilab_metrics.transport import keys
from unilab_metrics.transport.allow_list import WATCH
from unilab_metrics.transport.diagnosis import Finding
from unilab_schema.control import Fetch, Head, Latest, Snapshot, Updates
from unilab_schema.updates import Update

if TYPE_CHECKING:
    from typing_extensions import Self

RECENT_ENTRIES = 1000
"""How many entries before the newest one a subscriber gets when it joins."""
SILENT_S = 3.0
"""Without a head for this long the subscriber is not connected and looks for another one."""
SUSPICIOUS_S = 1.5
"""Heads come once a second; after this silence the aggregator's lease is looked at."""
RENEW_S = 10.0
"""Sockets that stay silent are made anew this often."""
SEARCH_S = 0.5
REFUSED_S = 2.0
"""A connection that was refused tries again this often: the key may be allowed again."""
REPLY_TIMEOUT_S = 2.0
IDLE_FETCH_S = 0.2
_RESEND_MS = 20
_FETCH_LIMIT = 1000
_SMALLEST_FETCH = 8
"""A reply that does not arrive in time is asked for in smaller parts: over a slow line a large
one never would."""


class Subscriber:
    """Owned by one thread, which calls everything here; close it, or use it with ``with``."""

    def __init__(
        self, where: Whereabouts, *, after: int | None = None, recent: int = RECENT_ENTRIES
    ) -> None:
        """See :meth:`attach` and :meth:`attach_remote`."""
        self._where = where
        self._contact: Contact | None = None
        self._position = Position(after, recent)
        self._head_at_s = 0.0
        self._newest: Update | None = None
        self._snapshot: Snapshot | None = None
        self._connection: BusConnection | None = None
        self._connected_at_s = 0.0
        self._files = Files(where.bus_dir)
        self._next_search_s = 0.0
        self._next_fetch_s = 0.0
        self._request = 0
        self._fetching: tuple[int, float] | None = None
        self._fetch_limit = _FETCH_LIMIT
        self._asked_latest_s: float | None = None
        self._admission = Admission()

    @classmethod
    def attach(
        cls, run_dir: Path, *, after: int | None = None, recent: int = RECENT_ENTRIES
    ) -> Self:
        """Follow the run in ``run_dir``, live or ended.

        The first entry is the one behind ``after`` (0 for the whole history); by default the
        last ``recent`` entries of a live run, and all of an ended one. Raises as
        :meth:`RunOnDisk.check` does.
        """
        where = RunOnDisk(run_dir)
        where.check()
        return cls(where, after=after, recent=recent)

    @classmethod
    def attach_remote(
        cls,
        endpoint: str,
        key_file: Path,
        *,
        after: int | None = None,
        recent: int = RECENT_ENTRIES,
    ) -> Self:
        """Follow the live run that listens at ``tcp://HOST:PORT``, without its directory.

        ``key_file``: a copy of the run's ``bus/keys/watch.key``, or a pair whose public half is
        on the run's allow-list. Waits up to 3 s for the connection; then raises
        ``KeyFileError`` or ``KeyRefusedError`` for a key that is not taken, ``NoLiveRunError``
        if no run answers, and :class:`EndpointError` for what is no such address.
        """
        where = RunAtAddress(endpoint, keys.read_client(key_file, WATCH), key_file)
        made = cls(where, after=after, recent=recent)
        try:
            made._find_aggregator()
            if made._connection is not None:
                await_welcome(made._connection, where.endpoint, key_file)
        except BaseException:
            made.close()
            raise
        return made

    @property
    def head(self) -> Head | None:
        """The newest announcement; kept after the aggregator is gone."""
        return self._position.head

    @property
    def cursor(self) -> int | None:
        """Update sequence up to which entries were returned; ``None`` before joining."""
        return self._position.cursor

    @property
    def lost_entries(self) -> int:
        """Update sequences that could not be delivered."""
        return self._position.lost_entries

    @property
    def damaged(self) -> int:
        """Records, and stretches of files, that could not be read."""
        return self._position.damaged

    @property
    def connected(self) -> bool:
        """Whether an aggregator announced something within ``SILENT_S``."""
        return (
            self._connection is not None
            and self._head_at_s >= self._connected_at_s
            and self._silent_s() < SILENT_S
        )

    @property
    def refusal(self) -> KeyRefusedError | None:
        """Why the aggregator does not let us in any more; asked again every ``REFUSED_S``."""
        line = self._connection
        if line is None or not self._admission.refuses(line.finding):
            return None
        return taken_out(line.route.announce, self._where.key_file)

    @property
    def data_age_s(self) -> float | None:
        """Seconds since the newest update was sealed; ``None`` before the first one.

        Measured on the aggregator's monotonic clock, and on the wall clocks of rank 0 and
        this machine where no aggregator was heard.
        """
        if self._newest is None:
            return None
        head = self._position.head
        if head is None:
            return max(0.0, time.time() - self._newest.unix_ns / 1e9)
        at_head_s = (head.mono_ns - self._newest.sealed_mono_ns) / 1e9
        return max(0.0, at_head_s + time.monotonic() - self._head_at_s)

    def snapshot(self) -> Snapshot | None:
        """Newest value of every tag as of joining; ``None`` until it is there, and for an
        ended run, whose whole history comes from :meth:`poll`."""
        return self._snapshot

    def poll(self, timeout_ms: float) -> list[HistoryRecord]:
        """New entries in order, each once; waits up to ``timeout_ms`` for the first one.

        After a loss of the aggregator's node, entries that were not durable yet are replaced
        by others, which come with the same sequences. Raises ``UnknownVersionError`` and
        ``EndpointError`` for versions that we do not know, ``ConnectionFileError`` for a file
        that is not ours or damaged, and ``OSError``.
        """
        deadline_s = time.monotonic() + timeout_ms / 1000
        while True:
            self._find_aggregator()
            line = self._connection
            entries = self._receive(line) if line else self._files.read(self._position)
            remaining_ms = (deadline_s - time.monotonic()) * 1000
            if entries or remaining_ms <= 0:
                break
            self._wait(remaining_ms)
        for record in entries:
            if isinstance(record.entry, Update):
                self._newest = record.entry
        return entries

    def close(self) -> None:
        """Close sockets and files; idempotent."""
        self._disconnect()
        self._files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _silent_s(self) -> float:
        return time.monotonic() - max(self._head_at_s, self._connected_at_s)

    def _find_aggregator(self) -> None:
        now_s = time.monotonic()
        if now_s < self._next_search_s:
            return
        self._next_search_s = now_s + SEARCH_S
        if self._connection is None:
            contact = self._where.look()
            if contact is not None:
                self._connect(contact)
            return
        head = self._position.head
        has_ended = head is not None and head.ended is not None
        if self._silent_s() < min(SUSPICIOUS_S, SILENT_S) and not has_ended:
            return
        patience_s = REFUSED_S if self._connection.finding == Finding.REFUSED else RENEW_S
        stale = self._silent_s() > patience_s
        if stale and self._contact is not None and patience_s == RENEW_S:
            self._where.was_silent(self._contact)
        contact = self._where.look()
        if contact != self._contact or stale:
            self._disconnect()
            if contact is not None:
                self._connect(contact)

    def _connect(self, contact: Contact) -> None:
        self._files.close()
        self._connection = BusConnection(contact.route)
        self._contact = contact
        self._connected_at_s = time.monotonic()
        self._fetching = None
        self._asked_latest_s = None

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _wait(self, remaining_ms: float) -> None:
        until_search_ms = max(0.0, (self._next_search_s - time.monotonic()) * 1000)
        wait_ms = min(remaining_ms, until_search_ms + 1)
        if self._connection is None:
            time.sleep(wait_ms / 1000)
        else:
            # A request that could not be sent yet is tried again soon.
            waiting = self._position.is_behind and self._fetching is None
            self._connection.wait(min(wait_ms, _RESEND_MS) if waiting else wait_ms)

    def _receive(self, connection: BusConnection) -> list[HistoryRecord]:
        received = connection.receive()
        for head in received.heads:
            self._heed(head)
        entries: list[HistoryRecord] = []
        for reply in received.replies:
            if isinstance(reply, Snapshot):
                self._snapshot = reply
            elif not isinstance(reply, Updates) or self._fetching is None:
                continue
            elif reply.request == self._fetching[0]:
                self._fetching = None
                self._fetch_limit = min(2 * self._fetch_limit, _FETCH_LIMIT)
                accepted = self._position.accept(reply)
                if not accepted:
                    self._next_fetch_s = time.monotonic() + IDLE_FETCH_S
                entries += accepted
        if self._position.head is not None:
            self._ask(connection)
        return entries

    def _heed(self, head: Head) -> None:
        known = self._position.head
        if not self._position.heed(head):
            return
        self._head_at_s = time.monotonic()
        if known is None or known.epoch != head.epoch:
            self._fetching = None
        if known is not None and known.epoch.journal != head.epoch.journal:
            self._newest = self._snapshot = self._asked_latest_s = None

    def _ask(self, connection: BusConnection) -> None:
        now_s = time.monotonic()
        asked = self._asked_latest_s
        if self._snapshot is None and (asked is None or now_s - asked > REPLY_TIMEOUT_S):
            self._request += 1
            if connection.ask(Latest(self._request)):
                self._asked_latest_s = now_s
        if self._fetching is not None and now_s - self._fetching[1] > REPLY_TIMEOUT_S:
            self._fetching = None
            self._fetch_limit = max(self._fetch_limit // 2, _SMALLEST_FETCH)
        is_due = self._position.is_behind and now_s >= self._next_fetch_s
        if self._fetching is None and is_due:
            self._request += 1
            after = self._position.cursor or 0
            if connection.ask(Fetch(self._request, after, self._fetch_limit)):
                self._fetching = (self._request, now_s)
