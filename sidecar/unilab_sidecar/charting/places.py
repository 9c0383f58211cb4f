"""Where the cursor of the charts may stand, where the newest update is, and how near one may look.
Pure, numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from unilab_sidecar.charting.bins import NO_BINS, Bins, Field, Float64s, Span, XAxis

_LEAST_POINTS = 5
"""In the narrowest window: fewer are no curve, and their places have the same name."""


def stepped(cursor: float, step: int, column: float, courses: Sequence[Bins], axis: XAxis) -> float:
    """So many columns further, or so many points where those lie further apart."""
    at = cursor + step * column
    first, last = _along(courses, axis)
    places = (first + last) / 2
    if step < 0:
        points = np.unique(places[places < cursor])[step:][:1]
        return min([at, *points.tolist()])
    points = np.unique(places[places > cursor])[:step][-1:]
    return max([at, *points.tolist()])


def on_point(at: float, courses: Sequence[Bins], axis: XAxis, span: Span) -> float:
    """The nearest place in the window where there is something; ``at`` if nothing is there."""
    first, last = _along(courses, axis)
    first, last = np.maximum(first, span.low), np.minimum(last, span.high)
    # Those of which nothing lies in the window, or nobody knows where.
    is_there = first <= last
    if not is_there.any():
        return at
    apart = np.where(is_there, np.maximum(np.maximum(first - at, at - last), 0.0), np.inf)
    nearest = int(apart.argmin())
    return float(min(max(at, first[nearest]), last[nearest]))


def _along(courses: Sequence[Bins], axis: XAxis) -> tuple[Float64s, Float64s]:
    ends = [bins.along(axis) for bins in courses] or [NO_BINS.along(axis)]
    return np.concatenate([one[0] for one in ends]), np.concatenate([one[1] for one in ends])


def newest_of(courses: Sequence[Bins], axis: XAxis) -> float | None:
    """Where the newest update is on an axis; ``None`` if nobody says that. After a restart it is not
    the furthest one."""
    ends: list[tuple[float, float]] = []
    for bins in courses:
        end = bins.along(axis)[1]
        is_known = np.isfinite(end)
        if is_known.any():
            attempts = bins[Field.ATTEMPT][is_known]
            newest = float(attempts.max())
            ends.append((newest, float(end[is_known][attempts == newest].max())))
    return max(ends)[1] if ends else None


def least_width(bins: Bins, axis: XAxis, span: Span) -> float:
    """Of a window that shows a few updates, as far apart as they are around ``span``; infinite
    where there are too few to know."""
    first, last = bins.along(axis)
    inside = np.flatnonzero((last >= span.low) & (first <= span.high))
    if not len(inside):
        return math.inf
    near = slice(max(int(inside[0]) - 1, 0), int(inside[-1]) + 2)
    count = float(bins.updates[near].sum())
    known = Bins(bins.table[:, near]).span(axis)
    if known is None or count < 2:
        return math.inf
    return (_LEAST_POINTS - 1) * (known.high - known.low) / (count - 1)
