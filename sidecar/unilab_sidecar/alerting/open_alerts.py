"""Which of the run's own alerts are open. Pure.

Announcements tell it, however late a viewer comes; of files and of the past the events do, and of a
run that has ended, of which only the last events are read, what it says of itself.
"""

from __future__ import annotations

from collections import Counter

from unilab_metrics.subscribe.seen_alerts import SeenAlerts
from unilab_schema.alerts import AlertStatus
from unilab_schema.control import Head
from unilab_schema.updates import AttemptOpened, EventUpdate
from unilab_sidecar.feeding.summary import Summary


class OpenAlerts:
    """Of what this viewer has seen. One owner, no locks; bounded."""

    def __init__(self) -> None:
        self._seen = SeenAlerts()
        self._attempt: int = 0

    def add(self, sequence: int, entry: EventUpdate | AttemptOpened) -> None:
        """Takes the next event, or an attempt, which begins without any."""
        self._seen.add(sequence, entry)
        if isinstance(entry, AttemptOpened):
            self._attempt = entry.attempt

    def now(
        self, head: Head | None, told: Summary | None = None
    ) -> tuple[tuple[AlertStatus, ...], int]:
        """The newest that are known, oldest first, and how many are open. ``told``: what the run
        says of itself at its end."""
        is_of_this = head is not None and head.attempt >= self._attempt
        if head is not None and is_of_this and head.ended is None:
            return head.alerts, max(head.alerts_open, len(head.alerts))
        known = self._seen.open
        count = len(known)
        if head is not None and is_of_this and head.alerts_open > count:
            known, count = head.alerts, head.alerts_open
        if told is None or told.alerts_open <= count:
            return known, count
        unseen = Counter(told.alerts) - Counter(one.text for one in known)
        return (*map(_told, unseen.elements()), *known), told.alerts_open


def _told(text: str) -> AlertStatus:
    """One of which nothing but its text is known."""
    return AlertStatus(0, "", "", text, "bad", None, 0)
