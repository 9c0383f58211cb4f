"""Charts of block characters as text. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from unilab_sidecar.values.means import are_one, mean

_LEVELS = " ▁▂▃▄▅▆▇█"


def columns(values: Sequence[float], cells: int) -> list[float]:
    """``values`` as one number per cell: the newest ones as they are while they fit, else the
    means of equal stretches, so that a chart always covers everything that it was given."""
    count = len(values)
    if count <= cells or cells <= 0:
        return list(values)
    return [
        mean(values[first:last])
        for first, last in (
            (cell * count // cells, (cell + 1) * count // cells) for cell in range(cells)
        )
    ]


def area(values: Sequence[float], cells: int, height: int) -> list[str]:
    """An area chart in ``height`` rows, top row first, each at most ``cells`` wide.

    The lowest value still shows one eighth, so that a flat course is a line and not a blank.
    """
    shown = columns(values, cells)
    if not shown or cells <= 0 or height <= 0:
        return [""] * max(height, 0)
    low, high = min(shown), max(shown)
    steps = 8 * height - 1
    is_flat = are_one(low, high)
    # A flat course lies in the middle: it is neither at its best nor at its worst. Halves are
    # subtracted, because the range of very large values need not be a number.
    levels = [
        1 + (steps // 2 if is_flat else round((value / 2 - low / 2) / (high / 2 - low / 2) * steps))
        for value in shown
    ]
    return [
        "".join(_LEVELS[min(max(level - 8 * row, 0), 8)] for level in levels)
        for row in reversed(range(height))
    ]


def sparkline(values: Sequence[float], cells: int) -> str:
    """The course of ``values`` in one row of at most ``cells``."""
    return area(values, cells, 1)[0]


def bar(fraction: float, cells: int) -> str:
    """A horizontal bar, exactly ``cells`` wide, blank at the right. A heavy line and not a block:
    bars below each other stay apart."""
    if not math.isfinite(fraction) or cells <= 0:
        return " " * max(cells, 0)
    full, half = divmod(round(min(max(fraction, 0.0), 1.0) * cells * 2), 2)
    return ("━" * full + "╸" * half).ljust(cells)


def gauge(fraction: float, cells: int) -> tuple[str, str]:
    """A progress bar as its filled and its open part, together ``cells`` wide."""
    full = round(min(max(fraction, 0.0), 1.0) * cells) if math.isfinite(fraction) else 0
    return "━" * full, "─" * (cells - full)
