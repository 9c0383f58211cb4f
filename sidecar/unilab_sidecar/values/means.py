"""Means that no size of their values breaks. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

_SAME = 1e-9
"""Share of the values below which they differ by rounding only."""


def mean(values: Sequence[float]) -> float:
    """Of at least one value; rounded but at the end, and between the least and the greatest of finite ones."""
    count = len(values)
    try:
        middle = math.fsum(values) / count
    except OverflowError:
        # Only where a sum of finite values is beyond a float.
        middle = 2 * math.fsum(value / 2 / count for value in values)
    except ValueError:
        # Of both infinities.
        return math.nan
    # What is rounded twice may come out beyond equal values by the last bit.
    return min(max(middle, min(values)), max(values))


def are_one(low: float, high: float) -> bool:
    """Whether nothing but rounding is between the least and the greatest of some values."""
    # Halves, because the range of very large values need not be a number.
    return high / 2 - low / 2 <= _SAME * max(abs(low), abs(high))
