"""From where to where the value axis of a chart goes. Pure, numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from unilab_sidecar.charting.axes import Scale, scale_of
from unilab_sidecar.charting.bins import Bins, Field, Float64s, Span, XAxis
from unilab_sidecar.charting.columns import MAX_ATTEMPTS, segments

_FEW = 32
"""Bins in a window of which the line to the next one outside is a part that counts."""
_LEAST_ABOVE_0 = 0.1
"""Of the values of a chart: with fewer, a logarithmic axis would have a place for next to nothing."""


def value_range(
    courses: Sequence[Bins], axis: XAxis, span: Span, *, log: bool = False
) -> Scale | None:
    """The scale for what these courses hold in the window; ``None`` if that is nothing that can
    be shown. ``log``: wanted; it is linear all the same where a logarithm would leave nearly all
    of the values out."""
    log = log and has_logarithms(courses, axis, span)
    lows: list[float] = []
    highs: list[float] = []
    for bins in courses:
        begins, ends = bins.along(axis)
        has_values = bins[Field.COUNT] > 0
        seen = (ends >= span.low) & (begins <= span.high) & has_values
        if not seen.any():
            # A window between two values shows the line from one to the other, if there are two.
            before = np.flatnonzero((ends < span.low) & has_values)[-1:]
            behind = np.flatnonzero((begins > span.high) & has_values)[:1]
            if len(before) and len(behind):
                seen[[before[0], behind[0]]] = True
        low, high, mean = (
            bins[field][seen] for field in (Field.MINIMUM, Field.MAXIMUM, Field.MEAN)
        )
        if np.count_nonzero(seen) <= _FEW:
            # The way to the neighbours is a part of the picture that has to be seen.
            entering = _at_edges(bins, axis, span, log=log)
            low, high = np.concatenate([low, entering]), np.concatenate([high, entering])
            mean = np.concatenate([mean, entering])
        if log:
            low = np.concatenate([low[low > 0], mean[mean > 0], high[(low <= 0) & (high > 0)]])
            high = high[high > 0]
        if len(low) and len(high):
            lows.append(float(low.min()))
            highs.append(float(high.max()))
    return scale_of(min(lows), max(highs), log=log) if lows else None


def has_logarithms(courses: Sequence[Bins], axis: XAxis, span: Span) -> bool:
    """Whether enough of the values in the window are above 0; where it has none, of all of them."""
    inside = above = every = all_above = 0.0
    for bins in courses:
        begins, ends = bins.along(axis)
        counts = bins[Field.COUNT]
        positive = counts - bins[Field.NOT_POSITIVE]
        seen = (ends >= span.low) & (begins <= span.high)
        inside, above = inside + counts[seen].sum(), above + positive[seen].sum()
        every, all_above = every + counts.sum(), all_above + positive.sum()
    if inside:
        every, all_above = inside, above
    return bool(all_above > 0 and all_above >= every * _LEAST_ABOVE_0)


def _at_edges(bins: Bins, axis: XAxis, span: Span, *, log: bool) -> Float64s:
    """Where the line of each attempt enters the window and leaves it, if it does."""
    found: list[float] = []
    for part in segments(bins, MAX_ATTEMPTS):
        begins, ends = part.along(axis)
        places, means = (begins + ends) / 2, part[Field.MEAN]
        is_known = (part[Field.COUNT] > 0) & np.isfinite(places)
        is_known &= (means > 0) | (not log)
        places, means = places[is_known], means[is_known]
        for edge in span:
            before = np.flatnonzero(places < edge)[-1:]
            behind = np.flatnonzero(places > edge)[:1]
            if len(before) and len(behind):
                low, high = float(means[before[0]]), float(means[behind[0]])
                share = float((edge - places[before[0]]) / (places[behind[0]] - places[before[0]]))
                found.append(Scale(low, high, log=log).at(share))
    return np.array([value for value in found if math.isfinite(value)], dtype=np.float64)
