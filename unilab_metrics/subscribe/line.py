"""A subscriber's connection to the run's aggregator, made anew when that has gone or is silent."""

from __future__ import annotations

import time
from collections.abc import Callable

from unilab_metrics.errors import UnilabMetricsError
from unilab_metrics.subscribe.connection import BusConnection
from unilab_metrics.subscribe.welcome import Admission, taken_out
from unilab_metrics.subscribe.whereabouts import Contact, Whereabouts
from unilab_metrics.transport.diagnosis import Finding

SILENT_S = 3.0
"""Without a head for this long the subscriber is not connected and looks for another one."""
SUSPICIOUS_S = 1.5
"""Heads come once a second; after this silence the aggregator's lease is looked at."""
RENEW_S = 10.0
"""Sockets that stay silent are made anew this often."""
SEARCH_S = 0.5
REFUSED_S = 2.0
"""A connection that was refused tries again this often: the key may be allowed again."""


class Line:
    """Owned by the subscriber's thread."""

    def __init__(self, where: Whereabouts) -> None:
        self._where = where
        self._contact: Contact | None = None
        self.connection: BusConnection | None = None
        self._connected_at_s = 0.0
        self._next_search_s = 0.0
        self._admission = Admission()
        self.heard_at_s = 0.0
        """When the newest head came, on this process's monotonic clock."""

    @property
    def is_heard(self) -> bool:
        """Whether an aggregator announced something within ``SILENT_S``."""
        return (
            self.connection is not None
            and self.heard_at_s >= self._connected_at_s
            and self._silent_s() < SILENT_S
        )

    @property
    def refusal(self) -> UnilabMetricsError | None:
        """Why the aggregator, or the machine that it is on, does not let us in any more."""
        line = self.connection
        if self._where.problem is not None:
            return self._where.problem
        if line is None or not self._admission.refuses(line.finding):
            return None
        return taken_out(line.route.announce, self._where.key_file)

    @property
    def until_search_ms(self) -> float:
        """Until :meth:`search` does something again."""
        return max(0.0, (self._next_search_s - time.monotonic()) * 1000)

    def search(self, hear: Callable[[], None] = lambda: None, *, has_ended: bool) -> bool:
        """Whether a connection was made just now. ``has_ended``: the run has, as far as is known:
        then another aggregator may come at any time. ``hear``: takes what a connection has
        received before it is given up. Raises as ``Whereabouts.look``, ``BusConnection`` and
        ``hear`` do."""
        now_s = time.monotonic()
        if now_s < self._next_search_s:
            return False
        self._next_search_s = now_s + SEARCH_S
        if self.connection is None:
            return self._connect(self._where.look())
        if self._silent_s() < min(SUSPICIOUS_S, SILENT_S) and not has_ended:
            return False
        patience_s = REFUSED_S if self.connection.finding == Finding.REFUSED else RENEW_S
        stale = self._silent_s() > patience_s
        if stale and self._contact is not None and patience_s == RENEW_S:
            self._where.was_silent(self._contact)
        contact = self._where.look()
        if contact == self._contact and not stale:
            return False
        hear()
        self.disconnect()
        return self._connect(contact)

    def disconnect(self) -> None:
        """Close the sockets; idempotent."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def _connect(self, contact: Contact | None) -> bool:
        if contact is None:
            return False
        self.connection = BusConnection(contact.route)
        self._contact = contact
        self._connected_at_s = time.monotonic()
        return True

    def _silent_s(self) -> float:
        return time.monotonic() - max(self.heard_at_s, self._connected_at_s)
