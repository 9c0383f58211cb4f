"""When to fetch more of the history, and how much at once. Pure: time is handed in."""

from __future__ import annotations

from typing import NamedTuple

from unilab_metrics.subscribe.history import HistoryRecord
from unilab_metrics.subscribe.passing_over import KINDS
from unilab_metrics.subscribe.position import Position
from unilab_schema.requests import Fetch, Updates

REPLY_TIMEOUT_S = 2.0
LONGEST_TIMEOUT_S = 16.0
"""Over a slow line a reply that is asked for twice is on its way twice."""
IDLE_FETCH_S = 0.2
"""After a reply that brought nothing."""
UNTOLD_S, UNTOLD_FETCH_S = 1.5, 0.5
"""Where announcements are later than the one they tell nothing; what is there is asked for every
so often instead."""
_MOST = 1000
_LEAST, _FIRST = 8, 16
_SLOW_S = 1.0
"""A reply that takes longer is asked for in smaller parts, so that what comes is shown soon."""
_KEPT_NUMBERS = 16


class Patience:
    """When to ask anew for what has not come: ever more seldom. One owner, no locks."""

    def __init__(self) -> None:
        self._asked_s: float | None = None
        self._wait_s = 0.0

    def is_due(self, now_s: float) -> bool:
        """Whether nobody was asked, or in vain."""
        return self._asked_s is None or now_s - self._asked_s > max(self._wait_s, REPLY_TIMEOUT_S)

    def asked(self, now_s: float) -> None:
        """The request went out."""
        if self._asked_s is not None:
            self._wait_s = min(2 * max(self._wait_s, REPLY_TIMEOUT_S), LONGEST_TIMEOUT_S)
        self._asked_s = now_s

    def forget(self) -> None:
        """Another one is to be asked."""
        self._asked_s, self._wait_s = None, 0.0


class _Made(NamedTuple):
    """How a request was. ``replaced``: as in ``KnownLayouts``."""

    is_part: bool = False
    replaced: int = 0


class Fetching:
    """One fetch at a time: the next one follows its reply, or takes the place of a lost one."""

    def __init__(self) -> None:
        self._limit = _FIRST
        self._sent: tuple[int, float] | None = None
        self._patience_s = REPLY_TIMEOUT_S
        self._given_up: list[int] = []
        self._made = _Made()
        self._open: dict[int, _Made] = {}
        self._not_before_s = 0.0
        self._replied_s = 0.0

    @property
    def is_waiting(self) -> bool:
        """Whether a reply is on its way."""
        return self._sent is not None

    def due(self, position: Position, now_s: float, late_s: float = 0.0) -> Fetch | None:
        """What to ask for now; its number is the caller's to give, who then calls :meth:`sent`.
        ``late_s``: as of ``Lateness``."""
        patience_s = max(self._patience_s, REPLY_TIMEOUT_S)
        if self._sent is not None and now_s - self._sent[1] > patience_s:
            self._given_up = [*self._given_up[1 - _KEPT_NUMBERS :], self._sent[0]]
            self._sent = None
            self._limit = max(self._limit // 2, _LEAST)
            self._patience_s = min(2 * patience_s, LONGEST_TIMEOUT_S)
        if self._sent is not None or now_s < self._not_before_s:
            return None
        if not position.is_behind and not self._may_be_behind(position, now_s, late_s):
            return None
        self._made = _Made(position.is_passing, position.known.replaced)
        kinds = KINDS if self._made.is_part else ()
        return Fetch(0, position.cursor or 0, self._limit, (), kinds, position.known.marks())

    def _may_be_behind(self, position: Position, now_s: float, late_s: float) -> bool:
        is_there = position.head is not None and position.cursor is not None
        return is_there and late_s > UNTOLD_S and now_s - self._replied_s >= UNTOLD_FETCH_S

    def sent(self, number: int, now_s: float) -> None:
        """The request went out under this number."""
        self._sent = (number, now_s)
        self._open[number] = self._made
        if len(self._open) > _KEPT_NUMBERS:
            del self._open[next(iter(self._open))]

    def take(self, reply: Updates, position: Position, now_s: float) -> list[HistoryRecord]:
        """The new entries of a reply, in order, also of one that comes late; none of one that nobody
        has asked for."""
        made = self._open.pop(reply.request, None)
        if self._sent is not None and reply.request == self._sent[0]:
            took_s, self._sent = now_s - self._sent[1], None
            self._replied_s = now_s
            self._given_up.clear()
            self._patience_s = max(REPLY_TIMEOUT_S, min(4 * took_s, LONGEST_TIMEOUT_S))
            is_whole = made is not None and not made.is_part
            slow_s = took_s if is_whole and took_s > _SLOW_S else 0.0
        elif reply.request in self._given_up:
            is_whole, slow_s = False, 0.0
        else:
            return []
        if made is None or made.replaced != position.known.replaced:
            # It leaves out layouts that are others by now.
            return []
        before = position.cursor
        accepted = position.accept(reply, is_part=made.is_part)
        if is_whole:
            # A part says nothing of how long whole entries take.
            self._adapt(len(accepted), slow_s)
        if not accepted and position.cursor == before:
            self._not_before_s = now_s + IDLE_FETCH_S
        return accepted

    def _adapt(self, count: int, slow_s: float) -> None:
        """The next limit, by what the line has carried: a few entries that came soon tell nothing
        of many."""
        if slow_s:
            limit = min(self._limit, max(count, _LEAST))
            self._limit = max(int(limit * _SLOW_S / slow_s), _LEAST)
        elif 2 * count > self._limit:
            self._limit = min(2 * self._limit, _MOST)

    def forget(self) -> None:
        """No reply will come."""
        self._sent = None
        self._given_up.clear()
        self._open.clear()
