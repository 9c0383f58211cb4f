"""Where a course of rewards goes at its end, over as many reports as it takes to see that. Pure.

After a collapse it falls, however far it had risen before. A slow climb is not seen in twenty
reports among noise, and is in a hundred.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from unilab_sidecar.picture import Trend
from unilab_sidecar.values.means import mean

LEAST = 20
"""Values of which something is said."""
_PART = 10
"""Values of a part of the course; a few of them may be outliers."""
_PARTS = (1, 2, 3, 5, 10)
"""As many parts are compared with as many before them, the fewest first, half of the course at most
in all."""
_TRIMMED = 5
"""One of so many values is left out on either side."""
_SHARE = 0.05
_FLOOR = 0.001
_ERRORS = 3.0
_WANDERINGS = 1.6
_LONG = 200
"""Values that are one climb or fall at most."""
_LONG_FROM = 40
_LONG_ERRORS = 2.0
_LEAST_BENDS = 4
"""Of which it is said how large they are."""
_STEP = 6.0
"""Deviations on both sides of it that a step is high."""
_LEAST_SIDE = 4
"""Values on either side of a step: fewer may be outliers."""
_STRAYS = 50
"""One of so many values, on either side, does not count for the height of the chart."""
_DEVIATION = 1.4826
"""Of a normal distribution, in medians of the distances from its middle."""


class Direction(NamedTuple):
    """``values``: the last ones, which it is said of."""

    trend: Trend
    values: int


def direction_of(values: Sequence[float]) -> Direction | None:
    """The last of ``values``, which are finite and oldest first, against as many before them: ten,
    as in the trainings' own panels, and where these say nothing more, up to a quarter of all.
    ``None`` of fewer than twenty values.

    A change counts from a twentieth of the chart's height: what rises on the chart rises here, also
    for negative rewards (a share of the value itself would call a fall from -100 to -104 a rise). It
    has to be beyond noise, too: three standard errors, and what a course that wanders may come to.

    Of a course that goes one way from end to end among much noise, that sees too little. So where
    it sees nothing in forty values or more, the last two hundred are one climb (or fall) if both
    steps between the middles of their thirds go the same way, each beyond two standard errors and
    the smaller a third of the larger at least, if together they are more than a twentieth of the
    height and than what the course wanders, and if it goes on: the last step between quarters is
    half of what these usually are. Measured, 300 times each with 45 to 200 values: an even rise is
    seen in 98 to 100 of 100 with noise of 0.15 of it, in 55 to 91 with 0.3. Rising are called at
    most 1 of 100 courses of noise alone, 3 to 8 from 60 values on where neighbours share 20 or 40
    episodes (as many as falling), and 1 to 10 of those that have stood for their last third.

    A course is never steady over a step: it goes where the step went if that is less than twenty
    values ago, and is steady over what came after it if it is more. A step has four values at least
    on either side, and is six deviations of either side high, single spikes left out.
    """
    if len(values) < LEAST:
        return None
    least, seen = _SHARE * _height(values), 0
    # However far it had risen before: it stands where it has stepped to.
    step = _step_of(values[-LEAST - _LEAST_SIDE :], least)
    if step is not None and step[0] < LEAST:
        return Direction(step[1], LEAST)
    middles = _middles(values)
    of_one = _wandering(middles)
    for parts in _PARTS:
        count = parts * _PART
        if parts > 1 and 4 * count > len(values):
            break
        seen = 2 * count
        before, last = values[-seen:-count], values[-count:]
        was = _middle(before)
        change = _middle(last) - was
        wandering = _WANDERINGS * _wandering_of(parts, middles, of_one)
        errors = max(_ERRORS * _standard_error(before, last), wandering)
        if abs(change) > max(least, _FLOOR * abs(was), errors):
            return Direction("rising" if change > 0 else "falling", seen)
    beyond = max(least, _WANDERINGS * of_one)
    return _long_way(values[-_LONG:], beyond) or _stand(values, seen, least)


def _stand(values: Sequence[float], seen: int, least: float) -> Direction:
    """Steady, but never over a step."""
    while (step := _step_of(values[-seen - _LEAST_SIDE :], least)) is not None:
        ago, way = step
        if ago >= seen:
            break
        if ago < LEAST:
            return Direction(way, LEAST)
        seen = ago
    return Direction("steady", seen)


def _step_of(values: Sequence[float], least: float) -> tuple[int, Trend] | None:
    """How many values ago the highest step of more than ``least`` was, and where it went. What goes
    up or down by and by is none: it is not high beside how far each of its sides goes."""
    scale = max(map(abs, values)) or 1.0
    middle = mean(values) / scale
    scaled = [value / scale - middle for value in _without_spikes(values)]
    sums = list(accumulate(scaled))
    squares = list(accumulate(value * value for value in scaled))
    best, found = _STEP, None
    for count in range(_LEAST_SIDE, len(values) - _LEAST_SIDE + 1):
        ago = len(values) - count
        was, now = sums[count - 1] / count, (sums[-1] - sums[count - 1]) / ago
        before = squares[count - 1] / count - was * was
        last = (squares[-1] - squares[count - 1]) / ago - now * now
        deviation = math.sqrt(max(before, last, 0.0))
        least_here = max(least / scale, _FLOOR * abs(was + middle))
        if abs(now - was) > max(best * deviation, least_here):
            best = abs(now - was) / deviation if deviation else math.inf
            found = ago, "rising" if now > was else "falling"
    return found


def _without_spikes(values: Sequence[float]) -> list[float]:
    """Each as the middle one of three neighbours, which leaves steps where they are."""
    inner = (sorted(values[at : at + 3])[1] for at in range(len(values) - 2))
    return [values[0], *inner, values[-1]]


def _long_way(values: Sequence[float], least: float) -> Direction | None:
    """All of them as one climb or fall, if they are one of more than ``least``."""
    if len(values) < _LONG_FROM:
        return None
    thirds = _last_parts(values, 3)
    was, half_way, now = map(_middle, thirds)
    steps = half_way - was, now - half_way
    change = now - was
    smaller, larger = sorted(map(abs, steps))
    if steps[0] * steps[1] <= 0 or smaller < larger / 3:
        return None
    if abs(change) <= max(least, _FLOOR * abs(was)):
        return None
    errors = _standard_error(*thirds[:2]), _standard_error(*thirds[1:])
    if any(abs(step) <= _LONG_ERRORS * error for step, error in zip(steps, errors, strict=True)):
        return None
    first, _, third, fourth = map(_middle, _last_parts(values, 4))
    way = math.copysign(1.0, change)
    if way * (fourth - third) <= max(way * (fourth - first) / 3 / 2, 0.0):
        return None
    return Direction("rising" if change > 0 else "falling", len(values))


def _last_parts(values: Sequence[float], count: int) -> list[Sequence[float]]:
    """Of equal size, the oldest first."""
    size = len(values) // count
    begin = len(values) - count * size
    return [values[at : at + size] for at in range(begin, len(values), size)]


def _middle(values: Sequence[float]) -> float:
    """Their mean without those that stray furthest."""
    strays = len(values) // _TRIMMED
    return mean(sorted(values)[strays : len(values) - strays])


def _height(values: Sequence[float]) -> float:
    strays = len(values) // _STRAYS
    ordered = sorted(values)
    return ordered[-1 - strays] - ordered[strays]


def _standard_error(*groups: Sequence[float]) -> float:
    """Of the difference of their middles, each value for itself."""
    return math.hypot(*(_deviation(_tamed(group)) / _middle_share(group) for group in groups))


def _tamed(values: Sequence[float]) -> list[float]:
    """Those that stray furthest are as far out as the next."""
    ordered, strays = sorted(values), len(values) // _TRIMMED
    low, high = ordered[strays], ordered[-1 - strays]
    return [min(max(value, low), high) for value in values]


def _middle_share(values: Sequence[float]) -> float:
    return math.sqrt(len(values)) * (1 - 2 / _TRIMMED)


def _middles(values: Sequence[float]) -> list[float]:
    """Of each part of the course, newest first."""
    ends = range(len(values), _PART - 1, -_PART)
    return [_middle(values[end - _PART : end]) for end in ends]


def _wandering(middles: Sequence[float]) -> float:
    """How far a part usually lies from the middle between those before and after it: not at all on a
    climb, and where there is but one step or turn that is not what is usual."""
    return max(_bend(middles, 1), _bend(middles, 2))


def _wandering_of(parts: int, middles: Sequence[float], of_one: float) -> float:
    """The same of so many parts together. They wander no further than single ones (a step is in
    nearly all that can be compared), and no less than independent noise does."""
    if parts == 1:
        return of_one
    runs = [mean(middles[at : at + parts]) for at in range(len(middles) - parts + 1)]
    return min(max(_bend(runs, parts), of_one / math.sqrt(parts)), of_one)


def _bend(runs: Sequence[float], far: int) -> float:
    """The usual distance from the middle between those that are so far before and after."""
    bends = [
        abs(before - 2 * middle + after)
        for before, middle, after in zip(runs, runs[far:], runs[2 * far :], strict=False)
    ]
    return _DEVIATION * _median(bends) if len(bends) >= _LEAST_BENDS else 0.0


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else mean(ordered[half - 1 : half + 1])


def _deviation(values: Sequence[float]) -> float:
    middle = mean(values)
    return math.hypot(*(value - middle for value in values)) / math.sqrt(len(values) - 1)
