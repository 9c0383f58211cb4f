"""When to fetch more of the history, and how much at once. Pure: time is handed in."""

from __future__ import annotations

from unilab_metrics.subscribe.history import HistoryRecord
from unilab_metrics.subscribe.position import Position
from unilab_schema.control import Fetch, Updates

REPLY_TIMEOUT_S = 2.0
IDLE_FETCH_S = 0.2
"""After a reply that brought nothing."""
_MOST = 1000
_LEAST = 8
"""A reply that does not arrive in time is asked for in smaller parts: over a slow line a large
one never would."""


class Fetching:
    """One fetch at a time: the next one follows its reply, or takes the place of a lost one."""

    def __init__(self) -> None:
        self._limit = _MOST
        self._sent: tuple[int, float] | None = None
        self._not_before_s = 0.0

    @property
    def is_waiting(self) -> bool:
        """Whether a reply is on its way."""
        return self._sent is not None

    def due(self, position: Position, now_s: float) -> Fetch | None:
        """What to ask for now; its number is the caller's to give, who then calls :meth:`sent`."""
        if self._sent is not None and now_s - self._sent[1] > REPLY_TIMEOUT_S:
            self._sent = None
            self._limit = max(self._limit // 2, _LEAST)
        if self._sent is not None or not position.is_behind or now_s < self._not_before_s:
            return None
        return Fetch(0, position.cursor or 0, self._limit)

    def sent(self, number: int, now_s: float) -> None:
        """The request went out under this number."""
        self._sent = (number, now_s)

    def take(self, reply: Updates, position: Position, now_s: float) -> list[HistoryRecord]:
        """The new entries of a reply, in order; none of one that nobody waits for."""
        if self._sent is None or reply.request != self._sent[0]:
            return []
        self._sent = None
        self._limit = min(2 * self._limit, _MOST)
        accepted = position.accept(reply)
        if not accepted:
            self._not_before_s = now_s + IDLE_FETCH_S
        return accepted

    def forget(self) -> None:
        """No reply will come."""
        self._sent = None
