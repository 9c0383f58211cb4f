"""Numbers as text of bounded length. Pure. NaN and infinities are data and get a word."""

from __future__ import annotations

import math

UNKNOWN = "-"


def value(number: float, digits: int = 4) -> str:
    """A metric of unknown magnitude in at most ``digits + 6`` characters."""
    if (word := _not_finite(number)) is not None:
        return word
    size = abs(number)
    if float(number).is_integer() and size < 10**digits:
        return f"{number:.0f}" if size else "0"
    if size >= 10 ** (digits + 2) or size < 10.0 ** (1 - digits):
        return f"{number:.{max(digits - 2, 0)}e}"
    if size >= 10**digits:
        return f"{number:,.0f}"
    before_the_point = max(math.floor(math.log10(size)) + 1, 1)
    return f"{number:.{digits - before_the_point + (1 if size < 1 else 0)}f}"


def fixed(number: float, decimals: int) -> str:
    """A number with a fixed count of decimals; beyond a million in powers of ten."""
    if (word := _not_finite(number)) is not None:
        return word
    return f"{number:,.{decimals}f}" if abs(number) < 1e6 else f"{number:.{decimals}e}"


def whole(number: float) -> str:
    """A count: thousands are separated, ``12.3 M`` from ten million on."""
    if (word := _not_finite(number)) is not None:
        return word
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e7, "M")):
        if abs(number) >= size:
            return f"{number / min(size, 1e6 if unit == 'M' else size):,.1f} {unit}"
    return f"{number:,.0f}"


def rate(number: float) -> str:
    """Something per second: like a count, with decimals while it is small."""
    return fixed(number, 1) if abs(number) < 100 else whole(number)


def milliseconds(number: float) -> str:
    """Milliseconds with two decimals, fewer for what no reader needs them for."""
    if (word := _not_finite(number)) is not None:
        return word
    return f"{number:,.2f}" if abs(number) < 1e5 else f"{number:,.0f}"


def percent(number: float) -> str:
    """A percentage with one decimal."""
    if (word := _not_finite(number)) is not None:
        return word
    return f"{number:.1f} %"


def duration(seconds: float | None) -> str:
    """``h:mm:ss``, with days when there are any; a dash for an unknown one."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    total = max(int(seconds), 0)
    days, rest = divmod(total, 86400)
    clock = f"{rest // 3600}:{rest % 3600 // 60:02}:{rest % 60:02}"
    return f"{days} d {clock}" if days else clock


def age(seconds: float | None) -> str:
    """How long ago: ``0.3 s``, ``12 s``, ``4 min``, ``3 h``, ``2 d``; a dash if unknown."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    seconds = max(seconds, 0.0)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    for limit, size, unit in ((120, 1, "s"), (7200, 60, "min"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"


def _not_finite(number: float) -> str | None:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    return None
