"""A chart's values in words: at the cursor, newest, over the window, what is not shown. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unilab_sidecar.charting.axes import (
    Scale,
    distinct_number,
    short_number,
    time_label,
    time_labels,
)
from unilab_sidecar.charting.bins import Bins, Field, Span, XAxis, joined
from unilab_sidecar.drawing.text import (
    Line,
    Segment,
    Style,
    clean,
    fit,
    line,
    line_width,
    right,
    width_of,
)

STYLES: tuple[Style, ...] = ("series1", "series2", "series3", "series4", "series5", "series6")
_AXES: tuple[tuple[XAxis, str], ...] = (
    ("iteration", "iteration"),
    ("env_steps", "steps"),
    ("time", "time"),
)
_VALUE_CELLS = 9
_BRIEF_UPDATES = 512
"""A bin of that many updates may have come as a block, which counts no non-positive values."""


class Named(NamedTuple):
    """A tag with the letter and the style that mark it wherever it is shown."""

    tag: str
    letter: str
    style: Style
    bins: Bins


class Values(NamedTuple):
    """Of one stretch: ``finite`` values, ``strange`` that are none; ``latest`` as it was.
    ``low``, ``mean`` and ``high`` are NaN without finite values."""

    low: float
    mean: float
    high: float
    latest: float
    finite: int
    strange: int

    @property
    def is_single(self) -> bool:
        """Whether it is one update's."""
        return self.finite + self.strange == 1


def letter_of(place: int) -> str:
    """``a`` for the first tag."""
    return chr(ord("a") + place % 26)


def style_of(place: int) -> Style:
    """The style of the tag at a place; after six they begin again, letters do not."""
    return STYLES[place % len(STYLES)]


def values_of(bins: Bins) -> Values | None:
    """All these bins in brief; ``None`` if there are none."""
    if not len(bins):
        return None
    whole = joined(bins.table, np.zeros(1, dtype=np.intp))[:, 0]
    count = int(whole[Field.COUNT])
    low, mean, high = (
        float(whole[field]) if count else float("nan")
        for field in (Field.MINIMUM, Field.MEAN, Field.MAXIMUM)
    )
    strange = int(whole[Field.NANS] + whole[Field.INFINITIES] + whole[Field.STRANGE])
    if not count and not strange:
        return None
    return Values(low, mean, high, float(whole[Field.LATEST]), count, strange)


def in_window(bins: Bins, axis: XAxis, span: Span) -> Bins:
    """The bins of which some part lies in the window."""
    first, last = bins.along(axis)
    return bins.where((last >= span.low) & (first <= span.high))


def at_cursor(bins: Bins, axis: XAxis, span: Span, cells: int, cursor: float) -> Bins:
    """What the cursor's column of cells holds, of the newest attempt that has something there;
    the nearest bin if the column is empty. Nothing before the first and behind the last one."""
    column = (span.high - span.low) / max(cells, 1)
    place = np.floor((cursor - span.low) / column) if column > 0 else 0.0
    low = span.low + min(place, cells - 1) * column
    first, last = bins.along(axis)
    high = low + column
    is_there = (last >= low) & ((first < high) | (first == last) & (first == cursor))
    is_there &= np.isfinite(first)
    if not is_there.any():
        whole = bins.span(axis)
        if whole is None or high <= whole.low or low > whole.high:
            return bins.where(np.zeros(len(bins), dtype=bool))
        apart = np.abs((first + last) / 2 - cursor)
        # Of several attempts at the same distance the newest one counts.
        nearest = len(apart) - 1 - int(np.nanargmin(apart[::-1]))
        return Bins(bins.table[:, nearest : nearest + 1])
    attempts = bins[Field.ATTEMPT]
    return bins.where(is_there & (attempts == attempts[is_there].max()))


def heading(
    named: Named, width: int, *, values: Sequence[Segment], note: str, focused: bool
) -> Line:
    """A chart's title: letter, tag, rule, values at the right. The tag gives way, never the
    values; then the note does."""
    tail = [Segment(" "), *values] if values else []
    mark = Segment("▸" if focused else " ", "accent")
    start = line(mark, Segment(f"{named.letter} ", named.style))
    room = width - line_width(start) - line_width(tail) - 1
    said = f"  {note}" if note and room >= len(note) + 12 else ""
    tag = fit(clean(named.tag), max(room - len(said), 1))
    parts = line(*start, Segment(tag, "heading"), Segment(said, "warn"))
    rule = width - line_width(parts) - line_width(tail) - 1
    return line(*parts, Segment(f" {'─' * rule}" if rule > 0 else "", "dim"), *tail)


def values_words(
    values: Values | None, *, at_cursor: bool, room: int, apart: float = 0.0
) -> list[Segment]:
    """``now 12.3  min 1  max 20``, or with a cursor ``mean``, ``min``, ``max`` and how many; of a
    single update there its ``value``. ``apart``: what the value axis tells apart."""
    if values is None:
        return [Segment("no value", "label")]
    if at_cursor and values.is_single:
        return _pair("value", values.latest, apart)
    first = ("mean", values.mean) if at_cursor else ("now", values.latest)
    parts = _pair(*first, apart)
    # One end of a range says nothing without the other.
    more = [Segment("  "), *_pair("min", values.low, apart)]
    more += [Segment("  "), *_pair("max", values.high, apart)]
    parts += more if line_width([*parts, *more]) <= room else []
    if at_cursor and values.finite > 1:
        more = [Segment(f"  of {values.finite:,}", "label")]
        parts += more if line_width([*parts, *more]) <= room else []
    return parts


def legend_rows(
    named: Named,
    values: Values | None,
    width: int,
    *,
    focused: bool,
    at_cursor: bool,
    apart: float = 0.0,
) -> list[Line]:
    """A tag in the list at the side: its name, and below it value and range. ``apart``: what the
    value axis tells apart."""
    mark = Segment("▸" if focused else " ", "accent")
    name = fit(clean(named.tag), max(width - 3, 1))
    head = line(mark, Segment(f"{named.letter} ", named.style), Segment(name, "heading"))
    if values is None:
        return [head, line(Segment("   no value", "label"))]
    shown = values.mean if at_cursor else values.latest
    low, high = distinct_number(values.low, apart), distinct_number(values.high, apart)
    text = distinct_number(shown, apart)
    value = Segment(_in_cells(text, shown), _style(shown))
    has_span = values.finite and not (at_cursor and values.is_single)
    span = f"  {_in_cells(low, values.low)} … {high}" if has_span else ""
    if has_span and width_of(span) + _VALUE_CELLS + 3 > width:
        span = f"  {_in_cells(short_number(values.low), values.low)} … {short_number(values.high)}"
    return [head, line("   ", value, Segment(span, "label"))]


def not_shown(bins: Bins, scale: Scale | None, *, log: bool) -> str:
    """What a chart of these bins with this scale has no place for, in words; empty if that is
    nothing. ``log``: a logarithmic scale is wanted, and may not be had because of them."""
    said: list[str] = []
    strange = int(bins.not_finite.sum())
    if strange:
        nans, others = int(bins[Field.NANS].sum()), int(bins[Field.INFINITIES].sum())
        if nans + others < strange:
            said.append(f"{strange:,} not finite")
        else:
            said += [f"{nans:,} NaN"] * bool(nans) + [f"{others:,} inf"] * bool(others)
    if log and (count := int(bins[Field.NOT_POSITIVE].sum())):
        mixed = (bins[Field.MINIMUM] <= 0) & (bins[Field.MAXIMUM] > 0)
        is_least = (mixed & (bins[Field.COUNT] >= _BRIEF_UPDATES)).any()
        words = f"{'at least ' * bool(is_least)}{count:,} not above 0"
        if scale is not None and not scale.log:
            has_none = not (bins[Field.MAXIMUM] > 0).any()
            words = "linear: nothing above 0" if has_none else f"linear: {words}"
        said.append(words)
    return ", ".join(said)


def place_words(bins: Bins, shown: Span, shown_axis: XAxis) -> list[tuple[str, str]]:
    """Where these bins lie, on every axis: names and values. ``shown``: the window."""
    words: list[tuple[str, str]] = []
    for axis, name in _AXES:
        span = bins.span(axis)
        if span is None:
            continue
        if axis == "time" == shown_axis:
            low, high = time_labels(span, shown)
        elif axis == "time":
            low, high = map(time_label, span)
        else:
            low, high = (f"{value:,.0f}" for value in span)
        words.append((name, low if low == high else f"{low} to {high}"))
    attempts = bins[Field.ATTEMPT]
    if len(attempts) and attempts.max() > 1:
        words.insert(1, ("attempt", f"{attempts.max():.0f}"))
    return words


def _pair(name: str, value: float, apart: float) -> list[Segment]:
    text = distinct_number(value, apart)
    return [Segment(f"{name} ", "label"), Segment(text, _style(value))]


def _in_cells(text: str, number: float) -> str:
    """At the right of its cells, with fewer digits than are wanted if they have no room; beyond them
    rather than cut."""
    shown = text if len(text) <= _VALUE_CELLS else short_number(number)
    return right(shown, max(_VALUE_CELLS, len(shown)))


def _style(value: float) -> Style:
    return "value" if np.isfinite(value) else "bad"
