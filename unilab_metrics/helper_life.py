"""What is known of a helper process's life: its signs, its silence, its troubles. Pure."""

from __future__ import annotations

from typing import NamedTuple

_TICK_S = 1.0


class Trouble(NamedTuple):
    """What happened to a helper, and what follows from it."""

    reason: str
    consequence: str

    def __str__(self) -> str:
        return f"{self.reason}; {self.consequence}"


class Heard(NamedTuple):
    """``at_s``: when ``pid`` last gave a sign of life, on the listener's monotonic clock."""

    pid: int
    at_s: float


class Silence:
    """Seconds without a sign of life, of one process at a time.

    They are counted, not measured: each call counts one at most, so a listener that was itself
    suspended for a minute has counted a single one.
    """

    def __init__(self, limit_s: int, now_s: float) -> None:
        """``limit_s``: 0 for a silence that is never too long."""
        self._limit_s = limit_s
        self._counted_s = now_s
        self._last: Heard | None = None
        self.seconds = 0

    def is_too_long(self, heard: Heard | None, now_s: float) -> bool:
        """Whether the limit is reached. ``heard``: ``None`` while nothing can be heard."""
        if not self._limit_s:
            return False
        if heard is None or heard != self._last:
            self._last = heard
            self.seconds = 0
            self._counted_s = now_s
        elif now_s - self._counted_s >= _TICK_S:
            self.seconds += 1
            self._counted_s = now_s
        return self.seconds >= self._limit_s

    def forget(self) -> None:
        """Another process."""
        self._last = None
        self.seconds = 0
