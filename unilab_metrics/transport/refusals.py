"""Counting who was not let in, and saying it once. Pure: time comes from the caller."""

from __future__ import annotations

from collections.abc import Callable

LINES_AT_ONCE = 10
LINE_INTERVAL_S = 6.0
"""So many lines at once, and then one in so many seconds: a scan must not fill the log."""
_MAX_REMEMBERED = 1024


class Refusals:
    """``counts``: refused connections and messages by reason, since the process started."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.counts: dict[str, int] = {}
        self._say = say
        self._said: set[tuple[str, str]] = set()
        self._lines = float(LINES_AT_ONCE)
        self._at_s = 0.0

    @property
    def total(self) -> int:
        """Of all reasons."""
        return sum(self.counts.values())

    def note(self, peer: str, reason: str, now_s: float) -> None:
        """Somebody was refused. ``peer``: an address or a uid, in words."""
        self.counts[reason] = self.counts.get(reason, 0) + 1
        self._lines = min(self._lines + (now_s - self._at_s) / LINE_INTERVAL_S, LINES_AT_ONCE)
        self._at_s = now_s
        known = (peer, reason)
        if known in self._said or self._lines < 1.0:
            return
        if len(self._said) >= _MAX_REMEMBERED:
            self._said.clear()
        self._said.add(known)
        self._lines -= 1.0
        self._say(f"refused {peer}: {reason}")
