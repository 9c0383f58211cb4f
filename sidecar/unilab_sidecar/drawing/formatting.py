"""Numbers as text of bounded length. Pure. NaN and infinities are data and get a word."""

from __future__ import annotations

import math

UNKNOWN = "-"
_MOST_WHOLE = 1e15
_MOST_MS = 1e9
_MOST_PERCENT = 1e6
_MOST_DAYS = 1_000_000
"""Where digits are no longer written out: what takes so long is no time of a training."""


def value(number: float, digits: int = 4) -> str:
    """A metric of unknown magnitude in at most ``digits + 6`` characters.

    ``digits`` of them, one less below 1, written out from ``1e-digits`` up to a hundred times
    ``10**digits``, with separated thousands; only beyond that in powers of ten.
    """
    if (word := _not_finite(number)) is not None:
        return word
    size = abs(number)
    if float(number).is_integer() and size < 10**digits:
        return f"{number:,.0f}" if size else "0"
    if size >= 10 ** (digits + 2) or size < 10.0**-digits:
        return f"{number:.{max(digits - 2, 0)}e}"
    order = math.floor(math.log10(size))
    decimals = digits - 1 - order if size >= 1 else max(digits, digits - 2 - order)
    return f"{number:,.{max(decimals, 0)}f}"


def fixed(number: float, decimals: int) -> str:
    """A number with a fixed count of decimals; beyond a million in powers of ten."""
    if (word := _not_finite(number)) is not None:
        return word
    return f"{number:,.{decimals}f}" if abs(number) < 1e6 else f"{number:.{decimals}e}"


def whole(number: float) -> str:
    """A count: thousands are separated, ``12.3 M`` from ten million on; powers of ten beyond all
    units."""
    if (word := _not_finite(number)) is not None:
        return word
    if abs(number) >= _MOST_WHOLE:
        return f"{number:.1e}"
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
    if abs(number) >= _MOST_MS:
        return f"{number:.2e}"
    return f"{number:,.2f}" if abs(number) < 1e5 else f"{number:,.0f}"


def short_time(microseconds: float) -> str:
    """``882 µs``, from a thousand on ``1.25 ms``, ``29.9 ms``, ``125 ms``."""
    if (word := _not_finite(microseconds)) is not None:
        return word
    if abs(microseconds) < 999.5:
        return f"{microseconds:.0f} µs"
    ms = microseconds / 1e3
    if abs(ms) >= _MOST_MS:
        return f"{ms:.2e} ms"
    decimals = 2 if abs(ms) < 9.995 else 1 if abs(ms) < 99.95 else 0
    return f"{ms:,.{decimals}f} ms"


def percent(number: float) -> str:
    """A percentage with one decimal."""
    if (word := _not_finite(number)) is not None:
        return word
    return f"{number:.1f} %" if abs(number) < _MOST_PERCENT else f"{number:.1e} %"


def duration(seconds: float | None) -> str:
    """``h:mm:ss``, with days when there are any; a dash for an unknown one."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    total = max(int(seconds), 0)
    days, rest = divmod(total, 86400)
    if days >= _MOST_DAYS:
        return _days(seconds)
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
    return f"{seconds / 86400:.0f} d" if seconds < 86400 * _MOST_DAYS else _days(seconds)


def long_ago(seconds: float) -> str:
    """How long ago in two units, where a minute more or less is news: ``12 s``, ``1 min 4 s``,
    ``3 h 5 min``, ``2 d 4 h``; under ten seconds whole ones too; a dash if unknown."""
    if not math.isfinite(seconds):
        return UNKNOWN
    whole_s = max(int(seconds), 0)
    if whole_s >= 86400 * _MOST_DAYS:
        return _days(seconds)
    for size, unit, part, less in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole_s >= size:
            return f"{whole_s // size} {unit} {whole_s % size // part} {less}"
    return f"{whole_s} s"


def _days(seconds: float) -> str:
    return f"{seconds / 86400:.1e} d"


def _not_finite(number: float) -> str | None:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    return None
