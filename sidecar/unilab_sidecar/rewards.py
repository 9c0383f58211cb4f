"""The course of the mean episode return: last reports, peak, trend. Pure."""

from __future__ import annotations

import math
from collections import deque

from unilab_sidecar.picture import Trend

HISTORY = 200
_TREND_REPORTS = 10
_SPAN_REPORTS = 100
_TREND_SHARE = 0.05
_TREND_FLOOR = 0.001


class RewardCourse:
    """Reports of ``Train/mean_reward`` as updates carry them.

    An update repeats the collector's latest report until the next one, so a value that has
    not changed is the same report.
    """

    def __init__(self) -> None:
        self._reports: deque[float] = deque(maxlen=HISTORY)
        self._peak: float | None = None

    def add(self, value: float) -> None:
        """Takes the value of the next update. NaN and infinities have no place on a chart."""
        if not math.isfinite(value) or (self._reports and self._reports[-1] == value):
            return
        self._reports.append(value)
        if self._peak is None or value > self._peak:
            self._peak = value

    @property
    def peak(self) -> float | None:
        """The highest report seen, however long ago."""
        return self._peak

    @property
    def history(self) -> tuple[float, ...]:
        """The last reports, at most 200, oldest first."""
        return tuple(self._reports)

    def trend(self) -> Trend | None:
        """Mean of the last ten reports against the ten before; ``None`` while those are empty.

        A change counts from 5 % of the range of the last hundred reports: what rises on the
        chart rises here, also for negative rewards (a share of the value itself would call a
        fall from -100 to -104 a rise).
        """
        reports = list(self._reports)
        before = reports[-2 * _TREND_REPORTS : -_TREND_REPORTS]
        recent = reports[-_TREND_REPORTS:]
        if not before:
            return None
        was = _mean(before)
        change = _mean(recent) - was
        span = max(reports[-_SPAN_REPORTS:]) - min(reports[-_SPAN_REPORTS:])
        threshold = max(_TREND_SHARE * span, _TREND_FLOOR * abs(was))
        if abs(change) <= threshold:
            return "steady"
        return "rising" if change > 0 else "falling"


def _mean(values: list[float]) -> float:
    # Divided first: a sum of very large returns must not overflow.
    return math.fsum(value / len(values) for value in values)
