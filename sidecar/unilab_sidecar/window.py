"""Means over the last two seconds of updates, on the aggregator's clock. Pure.

First over ranks (the aggregator has done that), then over time (here). The window ends at
the newest update, so it always holds that one, and a burst after a stall does not put into
one window what was sealed over a longer time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unilab_schema.timing import LearnerTimeline, learner_other_ms, learner_timeline

WINDOW_NS = 2_000_000_000
_TIMING_PREFIX = "Perf/"

Values = npt.NDArray[np.float64]


class _Timing(NamedTuple):
    """Of one update: Other, and the accounted share of its wall if that exceeds 100 %."""

    other_ms: float | None
    excess_percent: float | None


@dataclass(slots=True)
class _Sample:
    attempt: int
    iteration: int
    sealed_mono_ns: int
    parts: list[tuple[tuple[str, ...], Values]]
    timing: _Timing | None = None

    def measure(self, algorithm: str) -> _Timing:
        if self.timing is None:
            values = self._timing_values()
            timeline = learner_timeline(values, algorithm)
            self.timing = _Timing(
                learner_other_ms(values, algorithm),
                timeline.accounted_percent if timeline.over_accounted else None,
            )
        return self.timing

    def _timing_values(self) -> dict[str, float]:
        return {
            tag: float(value)
            for tags, values in self.parts
            for tag, value in zip(tags, values, strict=True)
            if tag.startswith(_TIMING_PREFIX)
        }


class Window:
    """The updates of the last ``width_ns`` before the newest one, and besides them those of the
    window before. One owner, no locks."""

    def __init__(self, width_ns: int = WINDOW_NS) -> None:
        self._width_ns = width_ns
        self._samples: deque[_Sample] = deque()
        self._earlier: deque[_Sample] = deque()
        self._algorithm = ""

    def __len__(self) -> int:
        return len(self._samples)

    @property
    def newest_mono_ns(self) -> int | None:
        """When the newest update was sealed, or ``None`` before the first."""
        return self._samples[-1].sealed_mono_ns if self._samples else None

    def clear(self) -> None:
        """Forgets everything: values of two attempts are never averaged."""
        self._samples.clear()
        self._earlier.clear()

    def add(
        self,
        attempt: int,
        iteration: int,
        sealed_mono_ns: int,
        tags: tuple[str, ...],
        values: Values,
    ) -> None:
        """Takes the next update, in the order of update sequences."""
        newest = self.newest_mono_ns
        if newest is not None and sealed_mono_ns < newest:
            # Another node or another boot: its clock cannot be compared with the old one.
            self.clear()
        self._samples.append(_Sample(attempt, iteration, sealed_mono_ns, [(tags, values)]))
        while self._samples[0].sealed_mono_ns < sealed_mono_ns - self._width_ns:
            self._earlier.append(self._samples.popleft())
        while self._earlier and (
            self._earlier[0].sealed_mono_ns < self._earlier[-1].sealed_mono_ns - self._width_ns
        ):
            self._earlier.popleft()

    def supplement(
        self, attempt: int, iteration: int, tags: tuple[str, ...], values: Values
    ) -> None:
        """Values that came after their iteration was sealed join it while it is here."""
        for sample in chain(reversed(self._samples), reversed(self._earlier)):
            if (sample.attempt, sample.iteration) == (attempt, iteration):
                sample.parts.append((tags, values))
                sample.timing = None
                return

    def means(self) -> dict[str, float]:
        """Mean of every tag over the updates of the window that have it."""
        return _means(self._samples)

    def earlier_means(self) -> dict[str, float]:
        """The means of the window before: it ends at the newest update that this one lacks, so
        the two share none. Empty as long as everything lies in one window."""
        return _means(self._earlier)

    def learner_timeline(self, algorithm: str, means: dict[str, float]) -> LearnerTimeline | None:
        """Rows of the window's means with Other computed per update and then averaged.

        ``over_accounted`` if the phases of any single update exceed its wall. ``None`` while no
        update carries a timing.
        """
        if algorithm != self._algorithm:
            self._algorithm = algorithm
            for sample in self._samples:
                sample.timing = None
        timings = [sample.measure(algorithm) for sample in self._samples]
        others = [timing.other_ms for timing in timings if timing.other_ms is not None]
        other_ms = sum(others) / len(others) if others else None
        timeline = learner_timeline(means, algorithm, other_ms=other_ms)
        if timeline.wall_ms == 0 and other_ms is None:
            return None
        excesses = [
            timing.excess_percent for timing in timings if timing.excess_percent is not None
        ]
        if excesses and not timeline.over_accounted:
            return timeline._replace(over_accounted=True, accounted_percent=max(excesses))
        return timeline


def _means(samples: Iterable[_Sample]) -> dict[str, float]:
    groups: dict[tuple[str, ...], list[Values]] = {}
    for sample in samples:
        for tags, values in sample.parts:
            groups.setdefault(tags, []).append(values)
    # A NaN or two opposite infinities are what the training said, not a fault of ours.
    with np.errstate(invalid="ignore", over="ignore"):
        if len(groups) == 1:
            ((tags, rows),) = groups.items()
            return dict(zip(tags, _mean(rows).tolist(), strict=True))
        return _merge(groups)


def _mean(rows: Sequence[Values]) -> Values:
    if len(rows) == 1:
        return rows[0]
    return np.asarray(np.mean(np.stack(rows), axis=0), dtype=np.float64)


def _merge(groups: dict[tuple[str, ...], list[Values]]) -> dict[str, float]:
    totals: dict[str, float] = {}
    counts: dict[str, int] = {}
    for tags, rows in groups.items():
        summed: Values = np.asarray(np.sum(np.stack(rows), axis=0), dtype=np.float64)
        for tag, total in zip(tags, summed.tolist(), strict=True):
            totals[tag] = totals.get(tag, 0.0) + total
            counts[tag] = counts.get(tag, 0) + len(rows)
    return {tag: total / counts[tag] for tag, total in totals.items()}
