"""How far a source's wall clock is from ours. Pure.

A message that had to wait makes the clock that it carries look late, never early: the largest
difference of the last moments is nearest to the truth.
"""

from __future__ import annotations

WINDOW_NS = 5_000_000_000


class ClockSkew:
    """Of one source, from the messages of the last 5 to 10 s in which there were any."""

    def __init__(self) -> None:
        self._since_mono_ns = 0
        self._before: float | None = None
        self._now: float | None = None

    @property
    def seconds(self) -> float:
        """Positive if the source's clock is ahead; 0 before the first message."""
        return max((s for s in (self._before, self._now) if s is not None), default=0.0)

    def heard(self, sent_unix_ns: int, unix_ns: int, mono_ns: int) -> None:
        """A message that was sent at ``sent_unix_ns`` of its clock came at ``unix_ns`` of ours."""
        skew_s = (sent_unix_ns - unix_ns) / 1e9
        if self._now is None or mono_ns - self._since_mono_ns > WINDOW_NS:
            self._before, self._now, self._since_mono_ns = self._now, skew_s, mono_ns
        else:
            self._now = max(self._now, skew_s)
