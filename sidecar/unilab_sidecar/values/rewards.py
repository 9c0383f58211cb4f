"""The course of the mean episode return, and its peak. Pure."""

from __future__ import annotations

import math
from collections import deque
from itertools import islice
from typing import NamedTuple

from unilab_sidecar.values.means import mean
from unilab_sidecar.values.reward_trend import Direction, direction_of

HISTORY = 200
_MAX_STRETCHES = 2 * HISTORY
_GAPS = 8
"""From so many reports to the next one it is known how long they take to come."""
_REPEATED = 4
_LEAST_REPEATED = 8
"""Updates, for which a value is a repeated report wherever reports come with every one."""


class Course(NamedTuple):
    """``values`` oldest first; ``span``: first and last iteration, ``None`` without reports."""

    values: tuple[float, ...]
    span: tuple[int, int] | None


class RewardCourse:
    """Reports of the mean reward as updates carry them.

    An update repeats the collector's latest report until the next one, so a value that has not
    changed is the same report: up to four times as long as reports have lately taken to come, and
    eight updates at least. From then on the run stands still at that value (an exact plateau, a
    collapse to zero), and it counts as a report as often as reports have come.
    """

    def __init__(self) -> None:
        self._reports: deque[float] = deque(maxlen=HISTORY)
        self._first: int | None = None
        self._last = 0
        self._attempt = 0
        self._reached = 0
        self._since_rewind: int | None = None
        self._stretches: list[float] = []
        self._ends: list[int] = []
        self._stretch_reports = 1
        self._open: list[float] = []
        self._peak: float | None = None
        self._newest: float | None = None
        self._carried = 0
        self._gaps: deque[int] = deque(maxlen=_GAPS)
        self._gap = 0
        self._longest = self._due = math.inf

    def add(self, value: float, iteration: int = 0, attempt: int = 0) -> None:
        """Takes the value of the next update. NaN and infinities have no place on a chart."""
        if attempt != self._attempt:
            self._begin(iteration, attempt)
        self._reached = max(self._reached, iteration)
        if value == self._newest:
            self._carried += 1
            if self._carried < self._due:
                return
            self._due += self._gap
        else:
            self._newest = value
            if not math.isfinite(value):
                self._carried, self._due = 0, math.inf
                return
            self._heed_gap()
        self._report(value, iteration)

    def _begin(self, iteration: int, attempt: int) -> None:
        """An attempt repeats no report of another one."""
        if self._reports and iteration <= self._reached:
            self._since_rewind = 0
            self._go_back_to(iteration)
        self._attempt, self._reached = attempt, iteration
        self._newest, self._carried = None, 0

    def _go_back_to(self, iteration: int) -> None:
        """What an attempt trains anew has no second place on the chart."""
        while self._ends and self._ends[-1] >= iteration:
            self._ends.pop()
            self._stretches.pop()
        if self._last >= iteration:
            self._open.clear()
        if not self._stretches and not self._open:
            self._first = None

    def _heed_gap(self) -> None:
        if self._carried:
            # Of a standstill no more than it took to see it: what follows one is no slower than
            # before, and where reports have become rarer a few of them tell.
            self._gaps.append(int(min(self._carried, self._longest)))
        self._carried = 1
        if self._gaps:
            self._gap = max(self._gaps)
            self._longest = max(_REPEATED * self._gap, _LEAST_REPEATED)
            self._due = self._longest + self._gap

    def _report(self, value: float, iteration: int) -> None:
        if self._since_rewind is not None:
            self._since_rewind += 1
        self._reports.append(value)
        self._last = self._reached
        if self._first is None:
            self._first = iteration
        if self._peak is None or value > self._peak:
            self._peak = value
        self._open.append(value)
        if len(self._open) == self._stretch_reports:
            self._stretches.append(mean(self._open))
            self._ends.append(self._last)
            self._open.clear()
            if len(self._stretches) == _MAX_STRETCHES:
                self._halve()

    @property
    def peak(self) -> float | None:
        """The highest report seen, however long ago."""
        return self._peak

    @property
    def last(self) -> float | None:
        """The last report, also one that is no finite number; ``None`` before the first."""
        return self._newest

    @property
    def history(self) -> tuple[float, ...]:
        """The last reports, at most 200, oldest first."""
        return tuple(self._reports)

    def course(self) -> Course:
        """All reports but those of iterations that were trained anew after a restart, as means over
        equal stretches of them: at most 400 and the open one.

        What has not changed since the first report is one report, but no blank: it is there once
        for each eight updates, 200 times at most.
        """
        values = self._values()
        if self._first is None:
            return Course(values, None)
        if len(values) == 1 and values[0] == self._newest:
            times = min(1 + self._carried // _LEAST_REPEATED, HISTORY)
            last = self._last if times == 1 else self._reached
            return Course(values * times, (self._first, last))
        return Course(values, (self._first, self._last))

    def _values(self) -> tuple[float, ...]:
        return (*self._stretches, *([mean(self._open)] if self._open else []))

    def direction(self, *, is_whole: bool) -> Direction | None:
        """Where it goes, and by how many last reports. ``is_whole``: as the chart of all of them has
        it. Only what came since a restart that went back counts: what an attempt has reached says
        nothing of the one that begins before its end. ``None`` also while the last report is no
        finite number."""
        if self._newest is None or not math.isfinite(self._newest):
            return None
        since = len(self._reports) if self._since_rewind is None else self._since_rewind
        if is_whole and (found := self._direction_of_stretches()) is not None:
            return found
        return direction_of(self.history[-since:]) if since else None

    def _direction_of_stretches(self) -> Direction | None:
        values = self._values()
        if self._since_rewind is not None:
            closed = (self._since_rewind - len(self._open)) // self._stretch_reports
            values = values[len(self._stretches) - closed :] if closed >= 0 else ()
        found = direction_of(values)
        if found is None:
            return None
        part = self._stretch_reports - len(self._open) if self._open else 0
        return Direction(found.trend, found.values * self._stretch_reports - part)

    def _halve(self) -> None:
        pairs = zip(
            islice(self._stretches, 0, None, 2), islice(self._stretches, 1, None, 2), strict=True
        )
        self._stretches = [mean(list(pair)) for pair in pairs]
        self._ends = self._ends[1::2]
        self._stretch_reports *= 2
