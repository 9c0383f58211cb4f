"""A value axis whose marks stand on rows of cells, if possible with as many rows between each two
of them. Pure.

Round values rarely lie a whole number of rows apart. So the scale may open a little, up or down,
until they do; where that would leave too much of a chart blank, one space is a row wider.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from unilab_sidecar.charting.axes import Scale, Tick, decade_label, number_labels, short_number

LABEL_CELLS = 7
_STEPS = ((1.0, 0.0), (2.0, 0.0), (2.5, 0.03), (5.0, 0.0))
"""Each with what it costs: the share of a chart that may be blank to avoid it."""
_DECADES = (1, 2, 3, 5, 10, 20, 50, 100, 200)
_PARTS = (((1, 3), 0.02), ((1, 2, 5), 0.04))
"""Of a decade, with what they cost."""
_MOST_MARKS = 6
_THREE_FROM = 6
_ROWS_PER_MARK = 3
_MOST_BLANK = 0.25
_OPENINGS = 10
_UNEVEN = 0.25
"""What it would cost if one space were none at all."""
_LONG_LABELS = 0.1
_TWO_OF_MANY = 0.1
_ONE_MORE = 0.03
_LEAST_SHARE = 1e-9
"""Of the values: a smaller span is as good as none."""
_MOST_POWER = 280
_POWERS = (-307, 307)


class Fitted(NamedTuple):
    """``marks``: row of cells, from the top, to the value that lies on it: at least two where there
    are two rows, three from six rows on."""

    scale: Scale
    marks: dict[int, Tick]


class _Marks(NamedTuple):
    """``places``: on the axis (powers of ten on a logarithmic one), from low to high. ``step``:
    between ``values``; 0 where their spaces are no equal ones. ``apart``: the widest space."""

    places: Sequence[float]
    values: Sequence[float]
    step: float
    apart: float
    cost: float


@lru_cache(maxsize=256)
def fitted(scale: Scale, rows: int, down: int) -> Fitted:
    """The scale for ``rows`` of cells of ``down`` dots each, opened by a quarter at most and by no
    more than the space between two marks."""
    low, high = scale.low, scale.high
    if scale.log:
        low, high = math.log10(low), math.log10(high)
    elif not 10.0**-_MOST_POWER < max(abs(low), abs(high)) < 10.0**_MOST_POWER:
        return _at_the_ends(scale, rows)
    least = max(abs(low), abs(high), scale.log * 1.0) * _LEAST_SHARE
    if high - low < least:
        low, high = low - least, high + least
    fewest = min(3 if rows >= _THREE_FROM else 2, rows)
    found = _cheapest(low, high, rows, down, fewest, is_log=scale.log)
    if found is None:
        return _at_the_ends(scale, rows)
    first, last, ticks = found
    if scale.log:
        opened = Scale(_power_of_ten(first), _power_of_ten(last), log=True)
    else:
        opened = Scale(first, last)
    return Fitted(opened, ticks)


def within(own: Scale, opened: Scale, whole: Scale) -> Scale:
    """A scale of a curve's own, opened as ``whole`` was to ``opened``."""
    low, high = ((end - whole.low) / (whole.high - whole.low) for end in (opened.low, opened.high))
    if not own.log:
        first, last = (max(min(own.at(share), 1.7e308), -1.7e308) for share in (low, high))
        return Scale(first, last)
    first, last = math.log10(own.low), math.log10(own.high)
    powers = (first + share * (last - first) for share in (low, high))
    first, last = (10.0 ** max(min(power, 308.0), -307.0) for power in powers)
    return Scale(first, last, log=True)


def _cheapest(
    low: float, high: float, rows: int, down: int, fewest: int, *, is_log: bool
) -> tuple[float, float, dict[int, Tick]] | None:
    """The opened range, and its marks by row."""
    dots = max(rows * down - 1, 1)
    span = high - low
    best, found = math.inf, None
    for below, above in _openings():
        if below + above >= best:
            break
        first, last = low - below * span, high + above * span
        if not is_log and (first < 0 <= low or high <= 0 < last):
            # What never falls below zero has no axis that does.
            continue
        for marks in _marks(first, last, rows, is_log=is_log):
            if not fewest <= len(marks.places) <= _MOST_MARKS:
                continue
            if (below + above) * span > marks.apart * (1 + 1e-9):
                continue
            on = [round((last - place) / (last - first) * dots) // down for place in marks.places]
            cost = below + above + marks.cost + _crowding(on, rows)
            if marks.step:
                cost += _UNEVEN * _unevenness(on)
            if len(set(on)) < len(on) or cost >= best - 1e-9:
                continue
            texts = _labels(marks)
            if max(map(len, texts)) > LABEL_CELLS:
                cost += _LONG_LABELS
            if cost < best - 1e-9:
                ticks = [Tick(*one) for one in zip(marks.values, texts, strict=True)]
                best, found = cost, (first, last, dict(zip(on, ticks, strict=True)))
    return found


@lru_cache(maxsize=1)
def _openings() -> list[tuple[float, float]]:
    """Shares of the span, below and above it."""
    whole = [_MOST_BLANK * part / _OPENINGS for part in range(_OPENINGS + 1)]
    sides = (0.0, 0.25, 0.5, 0.75, 1.0)
    return [(open_ * side, open_ * (1 - side)) for open_ in whole for side in sides]


def _unevenness(on: Sequence[int]) -> float:
    """Of the spaces between rows: what the narrowest lacks, as a share of the widest."""
    spaces = [above - below for above, below in pairwise(on)]
    return 1 - min(spaces) / max(spaces) if spaces and max(spaces) > 0 else 0.0


def _crowding(on: Sequence[int], rows: int) -> float:
    wanted = min(max(round(rows / _ROWS_PER_MARK), 3), _MOST_MARKS)
    is_dense = any(above - below < 2 for above, below in pairwise(on))
    return _ONE_MORE * abs(len(on) - wanted) + (2 * _ONE_MORE if is_dense else 0.0)


def _marks(first: float, last: float, rows: int, *, is_log: bool) -> Iterator[_Marks]:
    if not is_log:
        for marks in _multiples(first, last):
            yield marks
            if rows < _THREE_FROM and len(marks.values) > rows:
                yield _outermost(marks)
        return
    for powers in _DECADES:
        some = [power for power in _whole(first, last) if power % powers == 0]
        yield _Marks(some, [10.0**power for power in some], 1.0, powers, 0.0)
    for parts, cost in _PARTS if last - first < 3 else ():
        values = [
            part * 10.0**power
            for power in _whole(math.floor(first), last)
            for part in parts
            if first <= math.log10(part) + power <= last
        ]
        yield _Marks([math.log10(value) for value in values], values, 0.0, 1.0, cost)
    if last - first < 1 and -_MOST_POWER < first < _MOST_POWER:
        for marks in _multiples(_power_of_ten(first), _power_of_ten(last)):
            ends = [math.log10(value) for value in marks.values]
            wide = max((b - a for a, b in pairwise(ends)), default=last - first)
            yield marks._replace(places=ends, apart=wide, cost=marks.cost + 0.05)


def _multiples(first: float, last: float) -> Iterator[_Marks]:
    power = 10.0 ** math.floor(math.log10((last - first) / _MOST_MARKS))
    for size, cost in (*_STEPS, *((10 * size, cost) for size, cost in _STEPS)):
        step = size * power
        counts = range(math.ceil(first / step - 1e-9), math.floor(last / step + 1e-9) + 1)
        values = [count * step for count in counts]
        yield _Marks(values, values, step, step, cost)


def _outermost(marks: _Marks) -> _Marks:
    """Two of many, where there are no rows for more."""
    places, values = ([some[0], some[-1]] for some in (marks.places, marks.values))
    return marks._replace(places=places, values=values, cost=marks.cost + _TWO_OF_MANY)


def _whole(first: float, last: float) -> range:
    """The powers of ten that a number can have."""
    least, most = _POWERS
    return range(max(math.ceil(first - 1e-9), least), min(math.floor(last + 1e-9), most) + 1)


def _at_the_ends(scale: Scale, rows: int) -> Fitted:
    """Of values whose steps no label could tell."""
    ends = {rows - 1: scale.low, 0: scale.high}
    return Fitted(scale, {row: Tick(value, f"{value:.0e}") for row, value in ends.items()})


def _labels(marks: _Marks) -> list[str]:
    """All different. Where that takes more cells than an axis has, all but the lowest say how much
    more they are."""
    values, step = marks.values, marks.step
    if not step:
        return [decade_label(value) for value in values]
    if marks.places is not values and marks.apart >= 1:
        return [decade_label(value) for value in values]
    share = step / 10.0 ** math.floor(math.log10(step) + 1e-9)
    # A step of 2.5 needs a decimal more than one of 2.
    finest = step / 10 if abs(share - 2.5) < 1e-6 else step
    decimals = math.floor(math.log10(max(*map(abs, values), finest) / finest) + 1e-9)
    for texts in (
        number_labels(values, finest),
        [_short_power(f"{value:.{decimals}e}") for value in values],
    ):
        if len(set(texts)) == len(texts) and max(map(len, texts), default=0) <= LABEL_CELLS:
            return texts
    above = [count * step for count in range(1, len(values))]
    more = (
        short_number(one)
        if one >= 1
        else min(f"{one:.2g}", f"{one:.1e}".replace(".0e", "e"), key=lambda t: len(_short_power(t)))
        for one in above
    )
    base = short_number(values[0])
    if len(base) > LABEL_CELLS:
        base = f"{values[0]:.1e}"
    return [_short_power(base), *(f"+{_short_power(text)}" for text in more)]


def _short_power(text: str) -> str:
    """``1.25e-4`` for ``1.25e-04``."""
    return re.sub(r"e([+-])0*(\d+)", lambda found: f"e{found[1].strip('+')}{found[2]}", text)


def _power_of_ten(power: float) -> float:
    return 10.0 ** min(max(power, _POWERS[0]), _POWERS[1] + 1.25)
