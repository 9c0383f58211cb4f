"""What is known of the bus after the end of a run: the aggregator's last word, or where that did
not come, what the run says of itself. Pure: times and the reading of files are handed in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from unilab_schema.control import Head
from unilab_schema.updates import RunEnded
from unilab_sidecar.feeding.summary import Summary

if TYPE_CHECKING:
    from unilab_metrics.subscribe.history import HistoryRecord

AGAIN_S = 0.5
LONGEST_S = 30.0
_OPEN_WRITERS = frozenset({"starting", "running"})
_OPEN_SOURCES = frozenset({"live", "silent", "awaited"})


def is_last_word(head: Head) -> bool:
    """Whether an announcement says all of a run that has ended: an earlier one may be the last that
    a viewer has heard."""
    return (
        head.ended is not None
        and head.durable >= head.update
        and not any(backend.state in _OPEN_WRITERS for backend in head.backends)
        and not any(source.state in _OPEN_SOURCES for source in head.sources)
    )


class AfterTheEnd:
    """Looks for what a run says of itself while nobody speaks of it. Owned by the feed's thread."""

    def __init__(self, read: Callable[[int], Summary | None]) -> None:
        """``read``: what it says of the end of an attempt, ``None`` if nothing yet."""
        self._read = read
        self._attempt: int | None = None
        self._is_told = False
        self._next_s, self._pause_s = 0.0, AGAIN_S

    def heed(self, records: Iterable[HistoryRecord]) -> None:
        """Takes the entries that have come: what follows an end takes it back."""
        for record in records:
            entry = record.entry
            self._attempt = entry.attempt if isinstance(entry, RunEnded) else None
            self._rest()

    def summary(self, head: Head | None, now_s: float, *, connected: bool) -> Summary | None:
        """What it says, once; asked again, at first every :data:`AGAIN_S`, while it says nothing.

        An aggregator that answers, or has said all, knows better. It is written last, so what is
        read here while somebody is at work may be of an earlier time: it is read again after that.
        """
        if self._attempt is None:
            return None
        if connected:
            self._rest()
            return None
        is_said = head is not None and head.attempt >= self._attempt and is_last_word(head)
        if self._is_told or now_s < self._next_s or is_said:
            return None
        found = self._read(self._attempt)
        self._is_told = found is not None
        self._next_s, self._pause_s = now_s + self._pause_s, min(2 * self._pause_s, LONGEST_S)
        return found

    def _rest(self) -> None:
        self._is_told, self._next_s, self._pause_s = False, 0.0, AGAIN_S
