"""When a viewer that cannot keep up goes on near the end. Pure: time and messages are handed in.

What it has not read then is passed over in this view only, updates and points alone: events, and
starts and ends of attempts, all come.
"""

from __future__ import annotations

from typing import NamedTuple

from unilab_metrics.subscribe.position import Position
from unilab_schema.codec import RecordKind
from unilab_schema.updates import Update

LATE_S = 10.0
"""What is shown may be older than the newest announcement by so much, or if it soon will be less."""
WINDOW_S = 3.0
KINDS = (RecordKind.EVENT_UPDATE, RecordKind.ATTEMPT_OPENED, RecordKind.RUN_ENDED)
"""What is never passed over."""
_REACH_S = 2.5
"""Before the newest update: enough for means over two seconds."""
_LEAST = 2
_WORTH = 8


class _Mark(NamedTuple):
    at_s: float
    lag_s: float
    cursor: int


class PassingOver:
    """Owned by one thread."""

    def __init__(self) -> None:
        self._mark: _Mark | None = None
        self._shown: Update | None = None

    def look(
        self, position: Position, newest: Update | None, now_s: float, late_s: float = 0.0
    ) -> bool:
        """Whether something is to be passed over, which ``position`` knows then. To be asked again
        and again; ``newest``: that was handed over; ``late_s``: as of ``Lateness``."""
        head, cursor = position.head, position.cursor
        is_new = newest is not None and newest is not self._shown
        if head is None or cursor is None or newest is None or not is_new or position.is_passing:
            self._mark = None
            return False
        announced_s = (head.mono_ns - newest.sealed_mono_ns) / 1e9
        lag_s = announced_s + late_s
        if not position.is_behind or lag_s < LATE_S or newest.attempt != head.attempt:
            self._mark = None
            return False
        if self._mark is None:
            self._mark = _Mark(now_s, lag_s, cursor)
        mark, took_s = self._mark, now_s - self._mark.at_s
        if took_s < WINDOW_S:
            return False
        self._mark = None
        caught_up_s = (mark.lag_s - lag_s) / took_s
        if lag_s <= LATE_S * caught_up_s:
            return False
        per_s = min((head.update - cursor) / max(announced_s, 1.0), (cursor - mark.cursor) / took_s)
        until = head.update - max(int(per_s * _REACH_S), _LEAST)
        if until - cursor < _WORTH:
            return False
        self._shown, position.pass_until = newest, until
        return True
