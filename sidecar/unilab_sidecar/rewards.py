"""The course of the mean episode return: last reports, the whole run, peak, trend. Pure."""

from __future__ import annotations

import math
from collections import deque
from itertools import islice
from typing import NamedTuple

from unilab_sidecar.picture import Trend

HISTORY = 200
_MAX_STRETCHES = 2 * HISTORY
_TREND_REPORTS = 10
_SPAN_REPORTS = 100
_TREND_SHARE = 0.05
_TREND_FLOOR = 0.001


class Course(NamedTuple):
    """``values`` oldest first; ``span``: first and last iteration, ``None`` without reports."""

    values: tuple[float, ...]
    span: tuple[int, int] | None


class RewardCourse:
    """Reports of ``Train/mean_reward`` as updates carry them.

    An update repeats the collector's latest report until the next one, so a value that has
    not changed is the same report.
    """

    def __init__(self) -> None:
        self._reports: deque[float] = deque(maxlen=HISTORY)
        self._iterations: deque[int] = deque(maxlen=HISTORY)
        self._first: int | None = None
        self._stretches: list[float] = []
        self._stretch_reports = 1
        self._open: list[float] = []
        self._peak: float | None = None

    def add(self, value: float, iteration: int = 0) -> None:
        """Takes the value of the next update. NaN and infinities have no place on a chart."""
        if not math.isfinite(value) or (self._reports and self._reports[-1] == value):
            return
        self._reports.append(value)
        self._iterations.append(iteration)
        if self._first is None:
            self._first = iteration
        if self._peak is None or value > self._peak:
            self._peak = value
        self._open.append(value)
        if len(self._open) == self._stretch_reports:
            self._stretches.append(_mean(self._open))
            self._open.clear()
            if len(self._stretches) == _MAX_STRETCHES:
                self._halve()

    @property
    def peak(self) -> float | None:
        """The highest report seen, however long ago."""
        return self._peak

    @property
    def history(self) -> tuple[float, ...]:
        """The last reports, at most 200, oldest first."""
        return tuple(self._reports)

    def recent(self) -> Course:
        """The last reports, at most 200."""
        span = (self._iterations[0], self._iterations[-1]) if self._iterations else None
        return Course(self.history, span)

    def whole(self) -> Course:
        """All reports, as means over equal stretches of them: at most 400 and the open one."""
        values = [*self._stretches, *([_mean(self._open)] if self._open else [])]
        first = self._first
        return Course(tuple(values), None if first is None else (first, self._iterations[-1]))

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

    def _halve(self) -> None:
        pairs = zip(
            islice(self._stretches, 0, None, 2), islice(self._stretches, 1, None, 2), strict=True
        )
        self._stretches = [_mean(list(pair)) for pair in pairs]
        self._stretch_reports *= 2


def _mean(values: list[float]) -> float:
    # Divided first: a sum of very large returns must not overflow.
    return math.fsum(value / len(values) for value in values)
