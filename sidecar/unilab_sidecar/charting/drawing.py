"""A chart as lines of text: value axis, curves, the rule below with its marks. Pure, numpy.

Per curve a band from the lowest to the highest value of each column of dots (nothing is left
out, however many updates a column stands for) and the mean as a line on top. Curves are told
apart by letter and by the pattern of their line, never by colour alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from unilab_sidecar.charting.axes import (
    Scale,
    Tick,
    count_ticks,
    short_number,
    time_ticks,
)
from unilab_sidecar.charting.bins import Bins, Bools, Field, Span, XAxis
from unilab_sidecar.charting.canvas import Canvas, Ints, dot_rows
from unilab_sidecar.charting.columns import MAX_ATTEMPTS, Columns, columns_of, letters, segments
from unilab_sidecar.charting.ends import Lettered, with_ends
from unilab_sidecar.charting.fitting import fitted, within
from unilab_sidecar.drawing.text import Block, Line, Segment, Style, line, right, width_of

LABEL_CELLS = 7
_END_CELLS = 2
_NARROW = 24
"""Without room for labels the whole width goes to the curves."""

Pattern = Literal["solid", "dashed", "dotted", "faint", "earlier", "beside"]
_PATTERNS: dict[Pattern, tuple[int, int]] = {
    "solid": (1, 0),
    "dashed": (6, 4),
    "dotted": (2, 2),
    "faint": (1, 2),
    "earlier": (5, 3),
    "beside": (1, 3),
}


EARLIER: Style = "series6"
"""Of an earlier run in a chart of one tag: dots in grey are the current one's band."""


class Curve(NamedTuple):
    """``letter``: what marks it in a legend and, without braille, in the chart. ``behind``: an
    earlier run, without a band and a letter at its end. ``scale``: of its own, else the chart's."""

    bins: Bins
    letter: str = ""
    style: Style = "accent"
    pattern: Pattern = "solid"
    behind: bool = False
    scale: Scale | None = None


class Frame(NamedTuple):
    """Where a chart is drawn: ``width`` by ``rows`` cells with axis and rule. ``span``: the
    window on ``axis``. ``cursor``: a column of cells of the curves. ``labelled``: with the
    labels of the x axis as a last row. ``percent``: the value axis has no unit of its own.
    ``ends``: two more cells at the right, for the letters of curves that end there."""

    width: int
    rows: int
    axis: XAxis
    span: Span
    scale: Scale
    cursor: int | None = None
    labelled: bool = True
    unicode: bool = True
    percent: bool = False
    ends: bool = False

    @property
    def cells(self) -> int:
        """Columns of cells for the curves."""
        return plot_cells(self.width, ends=self.ends)


def plot_cells(width: int, *, ends: bool = False) -> int:
    """Columns of cells that a chart of ``width`` has for its curves."""
    if width < _NARROW:
        return max(width, 1)
    return max(width - LABEL_CELLS - 2 - _END_CELLS * ends, 1)


def draw(curves: Sequence[Curve], frame: Frame) -> Block:
    """The chart, ``frame.rows`` lines; fewer rows than three leave the rule and labels out."""
    below = [] if frame.rows < 3 else _below(curves, frame)
    rows = max(frame.rows - len(below), 1)
    canvas = Canvas(frame.cells, rows, unicode=frame.unicode)
    fit = fitted(frame.scale, rows, canvas.down)
    curves = [
        curve._replace(scale=within(curve.scale, fit.scale, frame.scale)) if curve.scale else curve
        for curve in curves
    ]
    frame = frame._replace(scale=fit.scale)
    drawn = [_in_columns(curve, frame, canvas.dots_across) for curve in curves]
    for one in drawn:
        _draw_bands(canvas, one, sparse=frame.ends)
    for one in sorted(drawn, key=lambda one: not one.curve.behind):
        _draw_lines(canvas, one)
    body = canvas.lines(cursor=frame.cursor)
    if frame.width < _NARROW:
        return [*body, *below]
    labels = {row: _label(tick, percent=frame.percent) for row, tick in fit.marks.items()}
    ends: dict[int, Segment] = {}
    if frame.ends:
        body, ends = with_ends(body, _lettered(drawn), canvas)
    bar, tick_bar = ("│", "┤") if frame.unicode else ("|", "+")
    lines = [
        line(
            Segment(right(labels.get(row, ""), LABEL_CELLS), "label"),
            Segment(f" {tick_bar if row in labels else bar}", "dim"),
            *shown,
            *((Segment(" "), ends[row]) if row in ends else ()),
        )
        for row, shown in enumerate(body)
    ]
    return [*lines, *below]


def _label(tick: Tick, *, percent: bool) -> str:
    text = tick.label + "%" * percent
    return text if width_of(text) <= LABEL_CELLS else short_number(tick.value)


class _Drawn(NamedTuple):
    """A curve in columns of dots, one for each attempt, oldest first."""

    curve: Curve
    attempts: list[Columns]


def _in_columns(curve: Curve, frame: Frame, count: int) -> _Drawn:
    scale = curve.scale or frame.scale
    parts = segments(curve.bins, MAX_ATTEMPTS)
    with_band = not curve.behind
    return _Drawn(
        curve,
        [
            columns_of(bins, frame.axis, frame.span, count, scale, with_band=with_band)
            for bins in parts
        ],
    )


def _lettered(drawn: Sequence[_Drawn]) -> list[Lettered]:
    return [
        Lettered(Segment(curve.letter, curve.style), attempts[-1].line)
        for curve, attempts in drawn
        if attempts and not curve.behind
    ]


def _draw_bands(canvas: Canvas, drawn: _Drawn, *, sparse: bool) -> None:
    if drawn.curve.behind:
        return
    for columns in drawn.attempts:
        top = dot_rows(columns.high, canvas.dots_down)
        bottom = dot_rows(columns.low, canvas.dots_down)
        # A band no wider than a line would only blur it.
        wanted = np.isfinite(columns.high) & (bottom - top > (canvas.down if sparse else 1))
        canvas.band(top, bottom, wanted, "dim", sparse=sparse)


def _draw_lines(canvas: Canvas, drawn: _Drawn) -> None:
    curve = drawn.curve
    on, off = _PATTERNS[curve.pattern] if canvas.unicode else (1, 0)
    is_on: Bools = np.arange(canvas.dots_across) % (on + off) < on
    for place, columns in enumerate(drawn.attempts):
        is_newest = place == len(drawn.attempts) - 1
        style: Style = curve.style if is_newest or curve.behind else "label"
        is_there = np.isfinite(columns.line)
        top, bottom = connected(dot_rows(columns.line, canvas.dots_down), is_there)
        canvas.line(top, bottom, is_there & is_on, style, curve.letter)


def connected(heights: Ints, is_there: Bools) -> tuple[Ints, Ints]:
    """Each column's stretch, up to the middle between it and its neighbours."""
    top, bottom = np.array(heights), np.array(heights)
    joined = is_there[:-1] & is_there[1:]
    apart = heights[1:] - heights[:-1]
    middle = heights[:-1] + np.trunc(apart / 2).astype(np.intp)
    on = middle + np.sign(apart)
    top[:-1] = np.where(joined, np.minimum(top[:-1], middle), top[:-1])
    bottom[:-1] = np.where(joined, np.maximum(bottom[:-1], middle), bottom[:-1])
    steep = joined & (np.abs(apart) > 1)
    top[1:] = np.where(steep, np.minimum(top[1:], on), top[1:])
    bottom[1:] = np.where(steep, np.maximum(bottom[1:], on), bottom[1:])
    return top, bottom


def _below(curves: Sequence[Curve], frame: Frame) -> Block:
    cells, unicode = frame.cells, frame.unicode
    ticks = _x_ticks(frame)
    rule = list(("─" if unicode else "-") * cells)
    places = {_cell_of(tick.value, frame): tick for tick in ticks}
    for place in places:
        rule[place] = "┴" if unicode else "+"
    marks = [letters(c.bins, frame.axis, frame.span, cells) for c in curves if not c.behind]
    parts: list[Segment] = []
    if frame.width >= _NARROW:
        parts.append(Segment(" " * LABEL_CELLS + (" └" if unicode else " +"), "dim"))
    marked: dict[int, tuple[str, Style]] = {}
    for place in range(cells) if "".join(marks).strip() else ():
        kinds = {mark[place] for mark in marks} - {" "}
        if kinds:
            marked[place] = (kinds.pop() if len(kinds) == 1 else "X", "bad")
    for place, attempt in _begins(curves, frame).items():
        marked.setdefault(place, (str(attempt)[-1], "value"))
    if frame.cursor is not None and 0 <= frame.cursor < cells and frame.cursor not in marked:
        marked[frame.cursor] = ("▲" if unicode else "^", "value")
    start = 0
    for place, (mark, style) in sorted(marked.items()):
        parts += [Segment("".join(rule[start:place]), "dim"), Segment(mark, style)]
        start = place + 1
    parts.append(Segment("".join(rule[start:]), "dim"))
    below: Block = [line(*parts)]
    if frame.labelled and frame.rows >= 4:
        below.append(_x_labels(places, frame))
    return below


def _begins(curves: Sequence[Curve], frame: Frame) -> dict[int, int]:
    """Where the training began again, and as which attempt."""
    begins: dict[int, int] = {}
    for curve in curves:
        for part in [] if curve.behind else segments(curve.bins, MAX_ATTEMPTS)[1:]:
            first = float(part.along(frame.axis)[0][0])
            if frame.span.low <= first <= frame.span.high:
                begins[_cell_of(first, frame)] = int(part[Field.ATTEMPT][0])
    return begins


def _x_ticks(frame: Frame) -> list[Tick]:
    most = max(frame.cells // 14, 1) + 1
    if frame.axis == "time":
        return time_ticks(frame.span, most)
    return count_ticks(frame.span, most)


def _x_labels(places: dict[int, Tick], frame: Frame) -> Line:
    indent = LABEL_CELLS + 2 if frame.width >= _NARROW else 0
    text = ""
    for place, tick in sorted(places.items()):
        width = width_of(tick.label)
        start = min(indent + place - width // 2, frame.width - width)
        if start < 0 or (text and start < len(text) + 2):
            continue
        text += " " * (start - len(text)) + tick.label
    return line(Segment(text, "label"))


def _cell_of(value: float, frame: Frame) -> int:
    width = frame.span.high - frame.span.low
    if not width > 0:
        return frame.cells // 2
    return min(int((value - frame.span.low) / width * frame.cells), frame.cells - 1)
