"""Scales, nice ticks and their labels. Pure.

Ticks lie on 1, 2 or 5 times a power of ten (times on what clocks count by); all labels of an
axis have the same unit and the same decimals, so that they can be compared at a glance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unilab_sidecar.charting.bins import Float64s, Span, XAxis

_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_UNITS_FROM = 10_000
_MOST_DECIMALS = 6
_MOST_DIGITS = 12
_FAR = 1e6
_LEAST_APART = 1e-300
"""Of the ends of an axis: between closer ones no share is exact."""
_GREATEST = math.nextafter(math.inf, 0.0)
_FINE_S = 10.0
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400
_TIME_STEPS_S = (
    *(1, 2, 5, 10, 15, 30),
    *(_MINUTE_S * n for n in (1, 2, 5, 10, 15, 30)),
    *(_HOUR_S * n for n in (1, 2, 3, 6, 12)),
)


class Tick(NamedTuple):
    """A place on an axis and what is written there."""

    value: float
    label: str


class Scale(NamedTuple):
    """From values to fractions of an axis: 0 at ``low``, 1 at ``high``. ``log``: both positive."""

    low: float
    high: float
    log: bool = False

    def fraction(self, values: Float64s) -> Float64s:
        """Where the values lie, far away as ``_FAR``; NaN for what a logarithm does not have."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.log:
                low, high = math.log10(self.low), math.log10(self.high)
                shares = (np.where(values > 0, np.log10(values), np.nan) - low) / (high - low)
            else:
                # Halves, because the range of very large values need not be a number.
                shares = (values / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return np.minimum(np.maximum(shares, -_FAR), _FAR)

    def at(self, fraction: float) -> float:
        """The value at a fraction of the axis."""
        if self.log:
            low, high = math.log10(self.low), math.log10(self.high)
            return 10.0 ** (low + fraction * (high - low))
        return self.low * (1 - fraction) + self.high * fraction


def scale_of(low: float, high: float, *, log: bool = False) -> Scale:
    """The scale that shows ``low`` to ``high``; around a single value it opens a little."""
    if log and low > 0:
        if math.log10(high) - math.log10(low) < 1e-9:
            low, high = max(low / 2, 5e-324), min(high * 2, _GREATEST)
        return Scale(low, high, log=True)
    if high / 2 - low / 2 <= max(abs(low), abs(high)) * 1e-13:
        apart = abs(low) * 0.05
        apart = apart if apart > _LEAST_APART else 1.0
        low, high = max(low - apart, -_GREATEST), min(high + apart, _GREATEST)
    return Scale(low, high)


def value_ticks(scale: Scale, most: int) -> list[Tick]:
    """At most ``most`` ticks of a value axis, from low to high."""
    if most <= 0:
        return []
    if scale.log and (ticks := _decades(scale, most)):
        return ticks
    values, step = _steps(scale.low, scale.high, most)
    return [Tick(v, text) for v, text in zip(values, number_labels(values, step), strict=True)]


def count_ticks(span: Span, most: int) -> list[Tick]:
    """At most ``most`` ticks of an axis of what is counted: there is no half of an iteration."""
    first, last = math.ceil(span.low - 1e-9), math.floor(span.high + 1e-9)
    if last - first >= most:
        return value_ticks(Scale(span.low, span.high), most)
    values = [float(value) for value in range(first, last + 1)]
    return [Tick(v, text) for v, text in zip(values, number_labels(values, 1), strict=True)]


def time_ticks(span: Span, most: int) -> list[Tick]:
    """At most ``most`` ticks of an axis in seconds."""
    if most <= 0:
        return []
    width_s = span.high - span.low
    step = next((s for s in _TIME_STEPS_S if _count(span.low, span.high, s) <= most), None)
    if width_s < most / 4:
        values, small = _steps(span.low, span.high, most)
        texts = number_labels(values, small)
        return [Tick(v, f"{text}s") for v, text in zip(values, texts, strict=True)]
    if step is None:
        days, step_days = _steps(span.low / _DAY_S, span.high / _DAY_S, most)
        step = max(step_days, 1.0) * _DAY_S
        values = [day * _DAY_S for day in days if float(day).is_integer()]
    else:
        first = math.ceil(span.low / step - 1e-9)
        values = [step * n for n in range(first, math.floor(span.high / step + 1e-9) + 1)]
    return [Tick(v, time_label(v, step)) for v in values[:most]]


def time_label(seconds: float, step: float = 1) -> str:
    """``45s``, ``5m``, ``1h 05m``, ``2d 06h``: no finer than ``step``, at most two units."""
    if not math.isfinite(seconds):
        return "-"
    sign = "-" if seconds < 0 else ""
    total = round(abs(seconds))
    days, hours = total // _DAY_S, total % _DAY_S // _HOUR_S
    minutes, rest = total % _HOUR_S // _MINUTE_S, total % _MINUTE_S
    if days:
        text = f"{days}d {hours:02}h" if hours or step < _DAY_S else f"{days}d"
    elif hours:
        text = f"{hours}h {minutes:02}m" if minutes or step < _HOUR_S else f"{hours}h"
    elif minutes:
        text = f"{minutes}m {rest:02}s" if rest or step < _MINUTE_S else f"{minutes}m"
    else:
        text = f"{rest}s" if total else "0"
    return sign + text


def span_words(span: Span, axis: XAxis) -> str:
    """``1,234 to 5,678``: from where to where, as fine as tells one from the other. Of what is
    counted, what lies in between."""
    if axis != "time":
        low, high = math.ceil(span.low - 1e-6), math.floor(span.high + 1e-6)
        return f"{low:,} to {max(low, high):,}"
    return " to ".join(time_labels(span, span))


def time_labels(times_s: Sequence[float], span: Span) -> list[str]:
    """As fine as one sees them on an axis over ``span``."""
    if 0 < span.high - span.low < _FINE_S:
        return [f"{text}s" for text in number_labels(times_s, (span.high - span.low) / 10)]
    return [time_label(time_s) for time_s in times_s]


def number_labels(values: Sequence[float], step: float) -> list[str]:
    """All with one unit, and the decimals that ``step`` needs."""
    biggest = max((abs(value) for value in values), default=0.0)
    if biggest == 0:
        return ["0"] * len(values)
    if not 1e-4 <= biggest < 1e15:
        return [_power(value, biggest, step) for value in values]
    size, unit = next(
        ((size, unit) for size, unit in _UNITS if biggest >= max(size, _UNITS_FROM)), (1.0, "")
    )
    decimals = max(-math.floor(math.log10(step / size) + 1e-9), 0) if step > 0 else 2
    if decimals > _MOST_DECIMALS:
        return [f"{value:.10g}" for value in values]
    # Adding 0 turns -0 into 0.
    texts = [f"{round(value / size, decimals) + 0.0:.{decimals}f}" for value in values]
    return ["0" if not float(text) else text + unit for text in texts]


def short_number(number: float) -> str:
    """A value on its own in at most nine characters: ``12.3M``, ``0.0456``, ``1.2e-07``."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    size = abs(number)
    if size >= 1e15 or 0 < size < 1e-4:
        return f"{number:.2e}"
    for unit_size, unit in _UNITS:
        if size >= max(unit_size, _UNITS_FROM) and size >= unit_size:
            return f"{number / unit_size:.4g}{unit}"
    return f"{number:.4g}"


def distinct_number(number: float, apart: float) -> str:
    """:func:`short_number` with as many digits as tell it from one that is ``apart`` from it."""
    size = abs(number)
    if not math.isfinite(number) or not 0 < apart < size:
        return short_number(number)
    digits = min(math.floor(math.log10(size)) - math.floor(math.log10(apart)) + 1, _MOST_DIGITS)
    if digits <= 4:
        return short_number(number)
    # Zeros at the end are digits too: without them it would look rounded.
    if size >= 1e15 or size < 1e-4:
        return f"{number:.{digits - 1}e}"
    unit_size, unit = next((u for u in _UNITS if size >= max(u[0], _UNITS_FROM)), (1.0, ""))
    return f"{number / unit_size:#.{digits}g}{unit}".removesuffix(".")


def _power(value: float, biggest: float, step: float) -> str:
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(biggest))
    decimals = exponent - math.floor(math.log10(step) + 1e-9) if step > 0 else 2
    return f"{value:.{min(max(decimals, 0), _MOST_DECIMALS)}e}".replace("e+", "e")


def _steps(low: float, high: float, most: int) -> tuple[list[float], float]:
    """Nice values in the range, and the step between them."""
    span = high - low
    if not math.isfinite(span):
        values, step = _steps(low / 4, high / 4, most)
        return [value * 4 for value in values], step * 4
    if span <= 0 or span < max(abs(low), abs(high)) * 1e-14 or span < 1e-300:
        return [low], abs(low) or 1.0
    power = 10.0 ** math.floor(math.log10(span / most))
    factors = (1, 2, 5, 10, 20, 50, 100)
    steps = [factor * power for factor in factors if math.isfinite(factor * power)]
    step = next((step for step in steps if _count(low, high, step) <= most), None)
    if step is None:
        return [0.0 if low <= 0 <= high else low], span
    first = math.ceil(low / step - 1e-9)
    count = _count(low, high, step)
    return [(first + n) * step for n in range(count)], step


def _count(low: float, high: float, step: float) -> int:
    return max(math.floor(high / step + 1e-9) - math.ceil(low / step - 1e-9) + 1, 0)


def _decades(scale: Scale, most: int) -> list[Tick]:
    low, high = math.log10(scale.low), math.log10(scale.high)
    powers = range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)
    if len(powers) < 2:
        finer = [
            factor * 10.0**power
            for power in range(math.floor(low), min(math.ceil(high), 308) + 1)
            for factor in (1, 2, 5)
            if scale.low <= factor * 10.0**power <= scale.high
        ]
        # Less than that is as good as linear.
        return [Tick(v, decade_label(v)) for v in finer[:most]] if len(finer) > 1 else []
    apart = next(n for n in (1, 2, 3, 5, 10, 20, 50, 100, 200, 700) if len(powers[::n]) <= most)
    return [Tick(10.0**n, decade_label(10.0**n)) for n in powers if n % apart == 0][:most]


def decade_label(value: float) -> str:
    """A power of ten, or a nice part of one."""
    return short_number(value).replace(".00e", "e").replace("e+", "e").replace("e-0", "e-")
