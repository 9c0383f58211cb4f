"""How late announcements arrive: over a slow line they wait behind others. Pure: times are handed
in.

The clock of another machine cannot be read. But what took least on its way tells how that clock
stands at the latest; whatever takes longer is late by the difference, at least.
"""

from __future__ import annotations

RENEW_S = 5.0
"""Announcements that are later than this are worth a new connection, which has none that wait."""
LASTING_S = 2.0
"""What has waited here, while this process was stopped, is read within a moment."""
SIP_S = 1.0
"""A line that is slow is not to be filled with announcements: from then on for a while only one is
heard so often."""
_LEAST_SIPPING_S, _LONGEST_SIPPING_S = 60.0, 1920.0
_LEAST_WAIT_S, _LONGEST_WAIT_S = 10.0, 160.0
_DRIFT = 2e-4
"""Two clocks run apart by less."""


class Lateness:
    """One owner, no locks. Seconds are of this process's monotonic clock."""

    def __init__(self) -> None:
        self.late_s = 0.0
        """Of the newest announcement, when it came, at least."""
        self._apart_s: float | None = None
        self._heard_s = 0.0
        self._asked_s: float | None = None
        self._late_since_s: float | None = None
        self._renewed_s: float | None = None
        self._wait_s = _LEAST_WAIT_S
        self._sips_until_s = self._sipping_s = 0.0

    def heard(self, mono_ns: int, now_s: float) -> None:
        """An announcement came that was made at ``mono_ns`` of the aggregator's clock."""
        made_s = mono_ns / 1e9
        apart_s = now_s - made_s
        least_s = apart_s
        if self._apart_s is not None:
            least_s = min(apart_s, self._apart_s + _DRIFT * max(now_s - self._heard_s, 0.0))
        before_s, since_s = self.late_s, self._asked_s
        if since_s is not None:
            # It was made since: a clock that stood still meanwhile is found out.
            least_s = max(least_s, since_s - made_s)
        self._apart_s, self._heard_s, self._asked_s = least_s, now_s, None
        self.late_s = apart_s - least_s
        if self.late_s < RENEW_S:
            self._late_since_s = None
        elif self._late_since_s is None:
            self._late_since_s = now_s
        if since_s is not None:
            has_helped = self.late_s < before_s / 2
            self._wait_s = _LEAST_WAIT_S if has_helped else min(2 * self._wait_s, _LONGEST_WAIT_S)

    def is_renewal_due(self, now_s: float) -> bool:
        """Whether to listen anew, which the caller then does, and calls :meth:`renewed`."""
        since_s = self._late_since_s
        if since_s is None or now_s - since_s < LASTING_S or self._asked_s is not None:
            return False
        return self._renewed_s is None or now_s - self._renewed_s >= self._wait_s

    def renewed(self, now_s: float) -> None:
        """What comes from now on was announced after ``now_s``."""
        self._renewed_s = self._asked_s = now_s
        self._late_since_s = None
        twice_s = max(2 * self._sipping_s, _LEAST_SIPPING_S)
        self._sipping_s = min(twice_s, _LONGEST_SIPPING_S)
        self._sips_until_s = now_s + self._sipping_s

    def is_listening(self, now_s: float) -> bool:
        """Whether announcements are wanted now. Who begins to listen hears one at once."""
        is_asked = self._asked_s is not None
        return is_asked or now_s >= self._sips_until_s or now_s - self._heard_s >= SIP_S
