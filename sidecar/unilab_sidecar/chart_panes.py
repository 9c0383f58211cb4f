"""The parts of the charts' screen: one chart per tag or one for all, and the list beside. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from unilab_sidecar.chart_bins import Bins, Span
from unilab_sidecar.chart_drawing import Curve, Frame, Pattern, draw, value_range
from unilab_sidecar.chart_legend import (
    Named,
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
from unilab_sidecar.chart_state import ChartState
from unilab_sidecar.chart_store import ChartStore
from unilab_sidecar.text import Block, Segment, beside, fit, line

GAP = 2
_PATTERNS: tuple[Pattern, ...] = ("solid", "dashed", "dotted")


class ChartData(NamedTuple):
    """``store``: the courses of the run's tags. ``known``: all its tags, sorted. ``compare``:
    those of an earlier run, and ``compare_label`` its name; it keeps the
    same tags. ``live``: the run goes on. ``earlier``: how many earlier runs there are."""

    store: ChartStore
    known: tuple[str, ...] = ()
    compare: ChartStore | None = None
    compare_label: str = ""
    live: bool = False
    earlier: int = 0


@dataclass(frozen=True, slots=True)
class Arranged:
    """``width`` of the charts and ``side`` of the list beside them; ``heights`` of the charts
    of one column, ``across``: how many columns of them."""

    width: int
    side: int
    across: int
    heights: tuple[int, ...]
    first: int
    cells: int


def named_courses(data: ChartData, state: ChartState) -> list[Named]:
    """The drawn tags with their marks and their courses."""
    places = {tag: place for place, tag in enumerate(state.tags)}
    return [
        Named(tag, letter_of(places[tag]), style_of(places[tag]), data.store.bins(tag))
        for tag in state.shown
    ]


def earlier_courses(data: ChartData, state: ChartState, tag: str) -> list[Bins]:
    """The tag's course in the earlier run, if that is asked for and knows it."""
    if data.compare is None or not state.compare:
        return []
    bins = data.compare.bins(tag)
    return [bins] if len(bins) else []


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

    def _bins_for_values(self, bins: Bins) -> Bins:
        state = self.state
        if state.cursor is not None:
            return at_cursor(bins, state.x_axis, self.span, self.cells, state.cursor)
        return in_window(bins, state.x_axis, self.span)

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
        lines: Block = []
        for row, height in enumerate(arranged.heights):
            first = arranged.first + row * across
            group = named[first : first + across]
            is_last = row == len(arranged.heights) - 1
            blocks = [self._small(one, each, height + is_last, labelled=is_last) for one in group]
            lines += beside(blocks, [each] * len(blocks), GAP)
        return lines

    def _small(self, one: Named, width: int, height: int, *, labelled: bool) -> Block:
        state = self.state
        curves = [Curve(one.bins, "", one.style)]
        curves += [
            Curve(earlier, pattern="faint", behind=True)
            for earlier in earlier_courses(self.data, state, one.tag)
        ]
        courses = [curve.bins for curve in curves]
        seen = in_window(one.bins, state.x_axis, self.span)
        note = not_shown(seen, log=state.log_y)
        words = []
        if not self.arranged.side:
            has_cursor = state.cursor is not None
            values = values_of(self._bins_for_values(one.bins))
            words = values_words(values, at_cursor=has_cursor, room=width * 3 // 5)
        is_meant = self._is_meant(one)
        head = heading(one, width, values=words, note=note, focused=is_meant)
        scale = value_range(courses, state.x_axis, self.span, log=state.log_y)
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
        elif self.state.log_y and values_of(seen):
            text = "nothing above 0: l for the linear scale"
        else:
            text = "no finite value here"
        lines: Block = [()] * max(height, 1)
        lines[len(lines) // 2] = line(Segment(f"         {text}", "label"))
        return lines

    def overlaid(self, named: list[Named]) -> Block:
        """One chart for all tags."""
        state, arranged = self.state, self.arranged
        courses = {
            one.tag: [one.bins, *earlier_courses(self.data, state, one.tag)] for one in named
        }
        every = [bins for group in courses.values() for bins in group]
        scale = value_range(every, state.x_axis, self.span, log=state.log_y)
        if scale is None:
            seen = in_window(named[0].bins, state.x_axis, self.span)
            return self._blank(named[0], seen, arranged.heights[0])
        is_scaled = state.overlay == "scaled"
        curves: list[Curve] = []
        for place, one in enumerate(named):
            own = None
            if is_scaled:
                group = courses[one.tag]
                own = value_range(group, state.x_axis, self.span, log=state.log_y)
            if is_scaled and own is None:
                continue
            pattern = _PATTERNS[place % len(_PATTERNS)]
            curves.append(Curve(one.bins, one.letter, one.style, pattern, scale=own))
            curves += [
                Curve(earlier, pattern="faint", behind=True, scale=own)
                for earlier in courses[one.tag][1:]
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
            words = values_words(values, at_cursor=has_cursor, room=width * 3 // 5)
            seen = in_window(one.bins, self.state.x_axis, self.span)
            note = not_shown(seen, log=self.state.log_y)
            focused = self._is_meant(one)
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
            is_meant = self._is_meant(one)
            rows += legend_rows(one, values, width, focused=is_meant, at_cursor=has_cursor)
            if self.state.overlay != "apart" and len(named) > 1:
                seen = in_window(one.bins, self.state.x_axis, self.span)
                if note := not_shown(seen, log=self.state.log_y):
                    rows.append(line(Segment(f"   {note}", "warn")))
            rows.append(())
        return rows
