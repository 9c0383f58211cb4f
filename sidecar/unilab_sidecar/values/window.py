"""Means over the last two seconds of updates, on the aggregator's clock. Pure.

First over ranks (the aggregator has done that), then over time (here). The window ends at
the newest update, so it always holds that one, and a burst after a stall does not put into
one window what was sealed over a longer time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unilab_schema.timing import LearnerTimeline, learner_other_ms, learner_timeline
from unilab_sidecar.values import row_means
from unilab_sidecar.values.means import mean
from unilab_sidecar.values.of_tags import OfTags
from unilab_sidecar.values.row_means import Rows, Values

WINDOW_NS = 2_000_000_000
_TIMING_PREFIX = "Perf/"
_MOST_UNIONS = 16


class _Timing(NamedTuple):
    """Of one update: Other, and the accounted share of its wall if that exceeds 100 %."""

    other_ms: float | None
    excess_percent: float | None


class _Timed(NamedTuple):
    """Which of the tags are timings, and where they are."""

    tags: tuple[str, ...]
    places: list[int]


class _Union(NamedTuple):
    """The tags of several key sets, each once, and where those of each are among them."""

    key_sets: tuple[tuple[str, ...], ...]
    tags: tuple[str, ...]
    places: list[npt.NDArray[np.intp]]


@dataclass(slots=True)
class _Sample:
    attempt: int
    iteration: int
    sealed_mono_ns: int
    parts: list[tuple[tuple[str, ...], Values]]
    timing: _Timing | None = None

    def measure(self, algorithm: str, timed: Callable[[tuple[str, ...]], _Timed]) -> _Timing:
        if self.timing is None:
            values: dict[str, float] = {}
            for tags, row in self.parts:
                those = timed(tags)
                values.update(zip(those.tags, row[those.places].tolist(), strict=True))
            timeline = learner_timeline(values, algorithm)
            self.timing = _Timing(
                learner_other_ms(values, algorithm),
                timeline.accounted_percent if timeline.over_accounted else None,
            )
        return self.timing


class Window:
    """The updates of the last ``width_ns`` before the newest one, and besides them those of the
    window before. One owner, no locks."""

    def __init__(self, width_ns: int = WINDOW_NS) -> None:
        self._width_ns = width_ns
        self._samples: deque[_Sample] = deque()
        self._earlier: deque[_Sample] = deque()
        self._algorithm = ""
        self._timed = OfTags(_timed)
        self._unions: dict[tuple[int, ...], _Union] = {}

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
        return self._means(self._samples)

    def earlier_means(self) -> dict[str, float]:
        """The means of the window before: it ends at the newest update that this one lacks, so
        the two share none. Empty as long as everything lies in one window."""
        return self._means(self._earlier)

    def _means(self, samples: Iterable[_Sample]) -> dict[str, float]:
        groups: dict[int, tuple[tuple[str, ...], list[Values]]] = {}
        for sample in samples:
            for tags, values in sample.parts:
                # By its number: to look a tuple up by its tags takes as long as it has any.
                groups.setdefault(id(tags), (tags, []))[1].append(values)
        if len(groups) == 1:
            ((tags, rows),) = groups.values()
            return dict(zip(tags, row_means.mean(rows).tolist(), strict=True))
        return self._merged(groups)

    def _merged(
        self, groups: Mapping[int, tuple[tuple[str, ...], list[Values]]]
    ) -> dict[str, float]:
        """Of several key sets: the mean of what each tag has in any of them."""
        union = self._unions.get(key := tuple(groups))
        if union is None or any(
            known is not tags
            for known, (tags, _) in zip(union.key_sets, groups.values(), strict=True)
        ):
            if len(self._unions) >= _MOST_UNIONS:
                self._unions.clear()
            union = self._unions[key] = _union([tags for tags, _ in groups.values()])
        parts = [
            Rows(places, rows)
            for places, (_, rows) in zip(union.places, groups.values(), strict=True)
        ]
        means = row_means.merged(parts, len(union.tags))
        return dict(zip(union.tags, means.tolist(), strict=True))

    def learner_timeline(self, algorithm: str, means: dict[str, float]) -> LearnerTimeline | None:
        """Rows of the window's means with Other computed per update and then averaged.

        ``over_accounted`` if the phases of any single update exceed its wall. ``None`` while no
        update carries a timing.
        """
        if algorithm != self._algorithm:
            self._algorithm = algorithm
            for sample in self._samples:
                sample.timing = None
        timings = [sample.measure(algorithm, self._timed.of) for sample in self._samples]
        others = [timing.other_ms for timing in timings if timing.other_ms is not None]
        other_ms = mean(others) if others else None
        timeline = learner_timeline(means, algorithm, other_ms=other_ms)
        if timeline.wall_ms == 0 and other_ms is None:
            return None
        excesses = [
            timing.excess_percent for timing in timings if timing.excess_percent is not None
        ]
        if excesses and not timeline.over_accounted:
            return timeline._replace(over_accounted=True, accounted_percent=max(excesses))
        return timeline


def _timed(tags: tuple[str, ...]) -> _Timed:
    places = [place for place, tag in enumerate(tags) if tag.startswith(_TIMING_PREFIX)]
    return _Timed(tuple(tags[place] for place in places), places)


def _union(key_sets: Sequence[tuple[str, ...]]) -> _Union:
    # Each has its tags in the run's order. That of what has most of them stays, whichever comes first.
    ordered = sorted(key_sets, key=lambda tags: (-len(tags), tags))
    tags = tuple(dict.fromkeys(chain.from_iterable(ordered)))
    at = {tag: place for place, tag in enumerate(tags)}
    places = [np.array([at[tag] for tag in one], dtype=np.intp) for one in key_sets]
    return _Union(tuple(key_sets), tags, places)
