"""Charts of block characters as text. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

_LEVELS = " ▁▂▃▄▅▆▇█"
_PARTS = " ▏▎▍▌▋▊▉█"


def columns(values: Sequence[float], cells: int) -> list[float]:
    """``values`` as one number per cell: the newest ones as they are while they fit, else the
    means of equal stretches, so that a chart always covers everything that it was given."""
    count = len(values)
    if count <= cells or cells <= 0:
        return list(values)
    return [
        math.fsum(value / (last - first) for value in values[first:last])
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
    # A flat course lies in the middle: it is neither at its best nor at its worst. Halves are
    # subtracted, because the range of very large values need not be a number.
    levels = [
        1
        + (
            round((value / 2 - low / 2) / (high / 2 - low / 2) * steps)
            if high > low
            else steps // 2
        )
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
    """A horizontal bar, exactly ``cells`` wide, blank at the right."""
    if not math.isfinite(fraction) or cells <= 0:
        return " " * max(cells, 0)
    eighths = round(min(max(fraction, 0.0), 1.0) * cells * 8)
    full, part = divmod(eighths, 8)
    text = "█" * full + (_PARTS[part] if part else "")
    return text + " " * (cells - len(text))


def gauge(fraction: float, cells: int) -> tuple[str, str]:
    """A progress bar as its filled and its open part, together ``cells`` wide."""
    full = round(min(max(fraction, 0.0), 1.0) * cells) if math.isfinite(fraction) else 0
    return "━" * full, "─" * (cells - full)
