"""Bins of one attempt as columns of a chart. Pure, numpy.

A column holds whatever of the bins lies in it: its lowest and highest value, the mean of their
means, and whether there was something that is no number. A bin that is wider than a column
fills all its columns; the line goes from middle to middle.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unilab_sidecar.charting.axes import Scale
from unilab_sidecar.charting.bins import Bins, Field, Float64s, Span, XAxis

MAX_ATTEMPTS = 8
"""Drawn one by one; older ones are drawn as if they were one."""
_LETTERS = " NIXXNIX"
"""By what occurs: 1 NaN, 2 infinities, 4 one of both."""


class Columns(NamedTuple):
    """Per column, as fractions of the value axis (0 at the bottom, NaN where there is nothing).

    ``low`` and ``high``: the band of what occurs; ``line``: means, and what lies between them.
    """

    low: Float64s
    high: Float64s
    line: Float64s


def segments(bins: Bins, most: int) -> list[Bins]:
    """The attempts one by one, oldest first; the oldest together if there are more than
    ``most``."""
    attempts = bins[Field.ATTEMPT]
    firsts = np.flatnonzero(np.diff(attempts)) + 1
    edges = [0, *firsts.tolist()[-(most - 1) :], len(bins)] if most > 1 else [0, len(bins)]
    return [Bins(bins.table[:, first:last]) for first, last in pairwise(edges) if last > first]


def columns_of(
    bins: Bins, axis: XAxis, span: Span, count: int, scale: Scale, *, with_band: bool = True
) -> Columns:
    """One attempt's bins in ``count`` columns over ``span``, also without the band."""
    low, high, line = (np.full(count, np.nan) for _ in range(3))
    made = Columns(low, high, line)
    begins, ends = _edges(bins, axis, span, count)
    if with_band:
        is_inside = (ends >= 0) & (begins < count)
        _put_band(bins.where(is_inside), begins[is_inside], ends[is_inside], made, scale)
    _put_line(bins, (begins + ends) / 2, made, scale)
    return made


def letters(bins: Bins, axis: XAxis, span: Span, count: int) -> str:
    """``N`` per cell with a NaN, ``I`` with an infinity, ``X`` with both or with what
    a block has counted without saying which; blanks elsewhere."""
    kinds = np.zeros(count, dtype=np.intp)
    for bit, field in ((1, Field.NANS), (2, Field.INFINITIES), (4, Field.STRANGE)):
        has_some = bins[field] > 0
        if not has_some.any():
            continue
        some = bins.where(has_some)
        _begins, ends = _edges(some, axis, span, count)
        # Where in a long bin it was, nobody knows: its end is as good as any.
        kept = (ends >= 0) & (ends < count)
        np.bitwise_or.at(kinds, ends[kept].astype(np.intp), bit)
    return "".join(_LETTERS[kind] for kind in kinds.tolist())


def _edges(bins: Bins, axis: XAxis, span: Span, count: int) -> tuple[Float64s, Float64s]:
    """First and last column of each bin, also beyond the window; NaN where unknown."""
    width = span.high - span.low
    first, last = bins.along(axis)
    if not width > 0:
        middle = np.where(np.isfinite(first), float(count // 2), np.nan)
        return middle, middle
    begins = np.floor((first - span.low) / width * count)
    ends = np.floor((last - span.low) / width * count)
    # The right edge belongs to the last column.
    begins = np.where(first == span.high, count - 1.0, begins)
    return begins, np.where(last == span.high, count - 1.0, ends)


def _within(places: Float64s, count: int) -> npt.NDArray[np.intp]:
    return np.minimum(np.maximum(places, 0), count - 1).astype(np.intp)


def _put_band(bins: Bins, begins: Float64s, ends: Float64s, made: Columns, scale: Scale) -> None:
    count = len(made.low)
    has_values = bins[Field.COUNT] > 0
    if scale.log:
        has_values &= bins[Field.MAXIMUM] > 0
    first = _within(begins[has_values], count)
    last = _within(ends[has_values], count)
    widths = last - first + 1
    which = np.repeat(np.arange(len(widths)), widths)
    starts = np.cumsum(widths) - widths
    columns = np.arange(len(which)) - starts[which] + first[which]
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(low, columns, bins[Field.MINIMUM][has_values][which])
    np.maximum.at(high, columns, bins[Field.MAXIMUM][has_values][which])
    filled = high >= low
    made.high[filled] = scale.fraction(high[filled])
    if scale.log:
        low = np.where(low > 0, low, scale.low)
    made.low[filled] = scale.fraction(low[filled])


def _put_line(bins: Bins, centres: Float64s, made: Columns, scale: Scale) -> None:
    count = len(made.line)
    counts, means = bins[Field.COUNT], bins[Field.MEAN]
    places = np.floor(centres)
    is_known = (counts > 0) & np.isfinite(centres)
    inside = is_known & (places >= 0) & (places < count)
    columns = places[inside].astype(np.intp)
    totals = np.bincount(columns, counts[inside], count)
    shares = counts[inside] / totals[columns]
    middles = np.bincount(columns, means[inside] * shares, count).astype(np.float64)
    # Their shares are rounded, and so is 1: equal means have no other mean than that.
    lowest, highest = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(lowest, columns, means[inside])
    np.maximum.at(highest, columns, means[inside])
    middles = np.minimum(np.maximum(middles, lowest), highest)
    heights = scale.fraction(np.where(totals > 0, middles, 0.0))
    knots = np.flatnonzero((totals > 0) & np.isfinite(heights))
    # The line enters and leaves the window where its neighbours outside make it.
    before = np.flatnonzero(is_known & (places < 0))[-1:]
    behind = np.flatnonzero(is_known & (places >= count))[:1]
    at = np.concatenate([centres[before], knots, centres[behind]])
    outside = [scale.fraction(means[before]), scale.fraction(means[behind])]
    values = np.concatenate([outside[0], heights[knots], outside[1]])
    at, values = at[np.isfinite(values)], values[np.isfinite(values)]
    if not len(at):
        return
    columns_all = np.arange(count)
    made.line[:] = np.interp(columns_all, at, values, left=np.nan, right=np.nan)
    # No line leads over a place where there was nothing but NaN, or what a logarithm has no place for.
    is_blank = (counts == 0) | (means <= 0) if scale.log else counts == 0
    breaks = np.sort(places[is_blank & np.isfinite(places)])
    if len(breaks):
        gap = np.searchsorted(at, columns_all, side="right")
        left = at[np.maximum(gap - 1, 0)]
        right = at[np.minimum(gap, len(at) - 1)]
        passed = np.searchsorted(breaks, right, "left") - np.searchsorted(breaks, left, "right")
        made.line[(passed > 0) & (columns_all > left)] = np.nan
