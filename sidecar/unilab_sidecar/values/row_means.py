"""Means over rows of values, place by place, that no size of the values breaks. Pure.

A sum of finite values may be beyond a float where their mean is not. Only there they are added as
shares of the mean; everywhere else nothing is spent for it but one look at the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]


class Rows(NamedTuple):
    """Rows of one length, at least one, and where the value at each place of theirs belongs."""

    places: npt.NDArray[np.intp]
    rows: Sequence[Values]


def mean(rows: Sequence[Values]) -> Values:
    """Of at least one row; a single one is given back as it is."""
    return rows[0] if len(rows) == 1 else _of_sum(_sum(rows), rows)


def merged(parts: Sequence[Rows], size: int) -> Values:
    """The mean at each of ``size`` places over what there is of it in any part."""
    totals, counts = np.zeros(size), np.zeros(size)
    sums = [_sum(part.rows) for part in parts]
    # A NaN or two opposite infinities are what the training said, not a fault of ours.
    with np.errstate(invalid="ignore", over="ignore"):
        for part, total in zip(parts, sums, strict=True):
            totals[part.places] += total
            counts[part.places] += len(part.rows)
        middle = totals / counts
        if np.isfinite(middle).all():
            return middle
        halves, low, high = np.zeros(size), np.full(size, np.inf), np.full(size, -np.inf)
        for (places, rows), total in zip(parts, sums, strict=True):
            of_part = _of_sum(total, rows)
            halves[places] += of_part / 2 * (len(rows) / counts[places])
            low[places] = np.minimum(low[places], of_part)
            high[places] = np.maximum(high[places], of_part)
        return np.where(np.isfinite(middle), middle, _between(halves, low, high))


def _sum(rows: Sequence[Values]) -> Values:
    # Row after row: a stack of them would copy megabytes, and give the very same sum.
    total = np.array(rows[0])
    with np.errstate(invalid="ignore", over="ignore"):
        for row in rows[1:]:
            total += row
    return total


def _of_sum(total: Values, rows: Sequence[Values]) -> Values:
    """The mean of the rows that have this sum."""
    middle = total / len(rows)
    # A NaN may come of a sum beyond a float and of an infinity among the values that is none of it.
    at = np.flatnonzero(~np.isfinite(middle))
    if not len(at):
        return middle
    halves, low, high = np.zeros(len(at)), np.full(len(at), np.inf), np.full(len(at), -np.inf)
    with np.errstate(invalid="ignore", over="ignore"):
        for row in rows:
            values = row[at]
            halves += values / (2 * len(rows))
            np.minimum(low, values, out=low)
            np.maximum(high, values, out=high)
        middle[at] = _between(halves, low, high)
    return middle


def _between(halves: Values, low: Values, high: Values) -> Values:
    # What is rounded twice may come out beyond equal values by the last bit.
    return np.minimum(np.maximum(2 * halves, low), high)
