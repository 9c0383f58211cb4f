"""Whether the attempt that has ended is followed by one that nobody announces yet. Pure: times and
what is found are handed in.

A training that goes on needs a moment until its aggregator is there. What the attempt before has
left, its end and its lost ranks, is not what somebody wants to see who looks at the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from unilab_schema.control import Head
from unilab_schema.updates import AttemptOpened, RunEnded

if TYPE_CHECKING:
    from unilab_metrics.subscribe.history import HistoryRecord

LOOK_S = 0.5


class NextAttempt:
    """Owned by the feed's thread."""

    def __init__(self, has_begun: Callable[[], bool]) -> None:
        """``has_begun``: whether a training is at work on the run, though that has ended."""
        self._has_begun = has_begun
        self._has_ended = False
        self._looked_s: float | None = None
        self._found = False

    def heed(self, records: Iterable[HistoryRecord]) -> None:
        """Takes the entries that have come: what follows an end takes it back."""
        for record in records:
            self._has_ended = isinstance(record.entry, RunEnded)
            self._looked_s, self._found = None, False

    def is_coming(self, now_s: float) -> bool:
        """To be asked after each poll."""
        if not self._has_ended:
            return False
        if self._looked_s is None or now_s - self._looked_s >= LOOK_S:
            self._looked_s, self._found = now_s, self._has_begun()
        return self._found


def is_opened_after(head: Head | None, records: Iterable[HistoryRecord]) -> bool:
    """Whether an attempt has begun that is later than the one that was announced."""
    return head is not None and any(
        isinstance(one.entry, AttemptOpened) and one.entry.attempt > head.attempt for one in records
    )
