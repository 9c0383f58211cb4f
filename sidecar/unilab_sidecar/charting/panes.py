"""The parts of the charts' screen: one chart per tag or one for all, and the list beside. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from unilab_sidecar.charting.axes import Scale, distinct_number
from unilab_sidecar.charting.bins import Bins, Span
from unilab_sidecar.charting.drawing import EARLIER, Curve, Frame, Pattern, draw
from unilab_sidecar.charting.legend import (
    Named,
    Values,
    at_cursor,
    heading,
    in_window,
    legend_rows,
    letter_of,
    not_shown,
    style_of,
    values_of,
    values_words,
)
from unilab_sidecar.charting.state import ChartState
from unilab_sidecar.charting.store import ChartStore
from unilab_sidecar.charting.value_range import value_range
from unilab_sidecar.drawing.text import Block, Segment, Style, beside, clean, fit, line, line_width

GAP = 2
_PATTERNS: tuple[Pattern, ...] = ("solid", "dashed", "dotted")
_EARLIER_FROM = 64
"""Cells of a heading with room for the earlier run's value."""


class ChartData(NamedTuple):
    """``store``: the courses of the run's tags. ``known``: all its tags, sorted. ``compare``: those
    of an earlier run, the same tags, and ``compare_label`` its name. ``live``: the run goes on.
    ``earlier``: how many earlier runs there are. ``is_played``: what comes is of a run that is
    played again, and there is more of it. ``finer``: how much has come of what is drawn instead of
    the history in brief, from 0 to 1. ``is_behind``: more has come than is drawn, because the
    display stands still."""

    store: ChartStore
    known: tuple[str, ...] = ()
    compare: ChartStore | None = None
    compare_label: str = ""
    live: bool = False
    earlier: int = 0
    is_played: bool = False
    finer: float = 1.0
    is_behind: bool = False


@dataclass(frozen=True, slots=True)
class Arranged:
    """``width`` of the charts and ``side`` of the list beside them; ``heights`` of the charts
    of one column, ``across``: how many columns of them. ``drawn``: the tags that have a chart of
    their own, of which ``first`` is the first that is to be seen."""

    width: int
    side: int
    across: int
    heights: tuple[int, ...]
    first: int
    cells: int
    drawn: tuple[str, ...] = ()


def named_courses(data: ChartData, state: ChartState) -> list[Named]:
    """The drawn tags with their marks and their courses."""
    places = {tag: place for place, tag in enumerate(state.tags)}
    return [
        Named(tag, letter_of(places[tag]), style_of(places[tag]), data.store.bins(tag))
        for tag in state.shown
    ]


def awaited(data: ChartData, state: ChartState) -> tuple[str, ...]:
    """The drawn tags of which no value has come while there are others: they need no chart."""
    without = tuple(
        tag
        for tag in state.shown
        if tag not in data.known
        and not len(data.store.bins(tag))
        and not earlier_courses(data, state, tag)
    )
    return () if len(without) == len(state.shown) else without


def earlier_courses(data: ChartData, state: ChartState, tag: str) -> list[Bins]:
    """The tag's course in the earlier run, if that is asked for and knows it."""
    if data.compare is None or not state.compare:
        return []
    bins = data.compare.bins(tag)
    return [bins] if len(bins) else []


def _apart(scale: Scale | None) -> float:
    """What somebody tells apart on this value axis."""
    return 0.0 if scale is None else (scale.high - scale.low) / 10


class Panes:
    """One picture's parts, with what they all need: ``span`` is the window."""

    def __init__(
        self, data: ChartData, state: ChartState, span: Span, arranged: Arranged, unicode: bool
    ) -> None:
        self.data, self.state, self.span = data, state, span
        self.arranged, self._unicode = arranged, unicode

    @property
    def cells(self) -> int:
        """Columns of cells for the curves."""
        return self.arranged.cells

    @property
    def is_overlaid(self) -> bool:
        """Whether there is one chart for several tags."""
        return self.state.overlay != "apart" and len(self.state.shown) > 1

    def _bins_for_values(self, bins: Bins) -> Bins:
        state = self.state
        if state.cursor is not None:
            return at_cursor(bins, state.x_axis, self.span, self.cells, state.cursor)
        return in_window(bins, state.x_axis, self.span)

    def _earlier_words(self, one: Named, apart: float) -> list[Segment]:
        """Of the earlier run at the cursor, else its newest value of the window, marked as its course
        is drawn."""
        courses = earlier_courses(self.data, self.state, one.tag)
        if not courses:
            return []
        values = values_of(self._bins_for_values(courses[0]))
        said = Segment("-", "label")
        if values is not None:
            is_mean = self.state.cursor is not None and values.finite
            value = values.mean if is_mean else values.latest
            style: Style = "value" if math.isfinite(value) else "bad"
            said = Segment(distinct_number(value, apart), style)
        if not self.is_overlaid:
            return [Segment("  ┄ earlier ", EARLIER), said]
        mark = "┄" if self._unicode else one.letter.upper()
        return [Segment(f"  {mark} earlier ", one.style), said]

    def _words(
        self, one: Named, values: Values | None, width: int, *, has_cursor: bool, apart: float
    ) -> list[Segment]:
        """The figures of a heading, of which the tag has the rest."""
        earlier = self._earlier_words(one, apart) if width >= _EARLIER_FROM else []
        room = width * 3 // 5 - line_width(earlier)
        words = values_words(values, at_cursor=has_cursor, room=room, apart=apart)
        return [*words, *earlier]

    def _courses(self, one: Named) -> list[Bins]:
        return [one.bins, *earlier_courses(self.data, self.state, one.tag)]

    def _seen(self, one: Named) -> Bins:
        return in_window(one.bins, self.state.x_axis, self.span)

    def _range(self, courses: list[Bins]) -> Scale | None:
        return value_range(courses, self.state.x_axis, self.span, log=self.state.log_y)

    def _cursor_cell(self) -> int | None:
        cursor, width = self.state.cursor, self.span.high - self.span.low
        if cursor is None or not self.span.low <= cursor <= self.span.high:
            return None
        if not width > 0:
            return self.cells // 2
        return min(int((cursor - self.span.low) / width * self.cells), self.cells - 1)

    def _is_meant(self, one: Named) -> bool:
        return len(self.state.shown) > 1 and self.state.tags.index(one.tag) == self.state.focus

    def apart(self, named: list[Named]) -> Block:
        """A chart for each tag, below each other, also in two columns."""
        arranged = self.arranged
        across, gaps = arranged.across, (arranged.across - 1) * GAP
        each = (arranged.width - gaps) // across
        without = [one for one in named if one.tag not in arranged.drawn]
        named = [one for one in named if one.tag in arranged.drawn]
        lines: Block = []
        for row, height in enumerate(arranged.heights):
            first = arranged.first + row * across
            group = named[first : first + across]
            is_last = row == len(arranged.heights) - 1
            blocks = [self._small(one, each, height + is_last, labelled=is_last) for one in group]
            lines += beside(blocks, [each] * len(blocks), GAP)
        return [*lines, *self._awaited(without)]

    def _awaited(self, without: list[Named]) -> Block:
        if not without:
            return []
        parts = [Segment(f"  no value{' yet' * self.data.live}:", "label")]
        for one in without:
            mark = Segment(" ▸" if self._is_meant(one) else "  ", "accent")
            parts += [mark, Segment(f"{one.letter} ", one.style), Segment(clean(one.tag))]
        return [line(*parts)]

    def _small(self, one: Named, width: int, height: int, *, labelled: bool) -> Block:
        state = self.state
        curves = [Curve(one.bins, "", one.style)]
        curves += [
            Curve(earlier, ".", EARLIER, "earlier", behind=True)
            for earlier in earlier_courses(self.data, state, one.tag)
        ]
        seen = self._seen(one)
        words, scale = [], self._range([curve.bins for curve in curves])
        note = not_shown(seen, scale, log=state.log_y)
        if not self.arranged.side:
            has_cursor = state.cursor is not None
            values = values_of(self._bins_for_values(one.bins))
            words = self._words(one, values, width, has_cursor=has_cursor, apart=_apart(scale))
        head = heading(one, width, values=words, note=note, focused=self._is_meant(one))
        if scale is None:
            return [head, *self._blank(one, seen, height - 1)]
        frame = Frame(
            width, height - 1, state.x_axis, self.span, scale,
            self._cursor_cell(), labelled, self._unicode,
        )  # fmt: skip
        return [head, *draw(curves, frame)]

    def _blank(self, one: Named, seen: Bins, height: int) -> Block:
        if not len(one.bins):
            is_loading = self.data.store.progress(one.tag) < 1
            text = "loading its history" if is_loading else "no value yet"
        elif not len(seen):
            text = "no value in this window: 0 shows the whole run"
        else:
            text = "no finite value here"
        lines: Block = [()] * max(height, 1)
        lines[len(lines) // 2] = line(Segment(f"         {text}", "label"))
        return lines

    def _common_scale(self, named: list[Named]) -> Scale | None:
        return self._range([b for one in named for b in self._courses(one)])

    def _note(self, one: Named, named: list[Named]) -> str:
        """What a chart for all of them does not show of one."""
        scale = self._common_scale([one] if self.state.overlay == "scaled" else named)
        return not_shown(self._seen(one), scale, log=self.state.log_y)

    def overlaid(self, named: list[Named]) -> Block:
        """One chart for all tags."""
        state, arranged = self.state, self.arranged
        scale = self._common_scale(named)
        if scale is None:
            return self._blank(named[0], self._seen(named[0]), arranged.heights[0])
        is_scaled = state.overlay == "scaled"
        curves: list[Curve] = []
        for place, one in enumerate(named):
            own = self._range(self._courses(one)) if is_scaled else None
            if is_scaled and own is None:
                continue
            pattern = _PATTERNS[place % len(_PATTERNS)]
            curves.append(Curve(one.bins, one.letter, one.style, pattern, scale=own))
            curves += [
                Curve(earlier, one.letter.upper(), one.style, "beside", behind=True, scale=own)
                for earlier in self._courses(one)[1:]
            ]
        frame = Frame(
            arranged.width, arranged.heights[0] + 1, state.x_axis, self.span,
            scale._replace(low=0.0, high=100.0, log=False) if is_scaled else scale,
            self._cursor_cell(), unicode=self._unicode, percent=is_scaled, ends=True,
        )  # fmt: skip
        lines = draw(curves, frame)
        return lines if arranged.side else [*lines, *self._below(named)]

    def _below(self, named: list[Named]) -> Block:
        """One line per tag, for terminals without room at the side."""
        width = self.arranged.width
        has_cursor = self.state.cursor is not None
        rows: Block = []
        for one in named:
            values = values_of(self._bins_for_values(one.bins))
            words = self._words(
                one, values, width, has_cursor=has_cursor, apart=_apart(self._range([one.bins]))
            )
            note, focused = self._note(one, named), self._is_meant(one)
            rows.append(heading(one, width, values=words, note=note, focused=focused))
        return rows

    def side(self, named: list[Named]) -> Block:
        """The list beside the charts: each tag's value and range."""
        width = self.arranged.side
        has_cursor = self.state.cursor is not None
        title = "at the cursor" if has_cursor else "newest, min … max"
        rows: Block = [line(Segment(fit(f"   {title}", width), "label"))]
        for one in named:
            values = values_of(self._bins_for_values(one.bins))
            is_meant, apart = self._is_meant(one), _apart(self._range([one.bins]))
            rows += legend_rows(
                one, values, width, focused=is_meant, at_cursor=has_cursor, apart=apart
            )
            if words := self._earlier_words(one, apart):
                rows.append(line(" ", *words))
            if self.is_overlaid and (note := self._note(one, named)):
                rows.append(line(Segment(f"   {note}", "warn")))
            rows.append(())
        return rows
