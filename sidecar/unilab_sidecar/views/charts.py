"""The charts: any tags, several at once, over the whole run or a part of it. Pure.

The app asks for ``data.store``'s history (:mod:`unilab_sidecar.chart_store`), keeps a
:class:`~unilab_sidecar.chart_state.ChartState`, and gives keys to its ``press`` with the
:func:`context` from here.
"""

from __future__ import annotations

from unilab_sidecar.chart_axes import short_number, time_label
from unilab_sidecar.chart_bins import Bins, Span, XAxis
from unilab_sidecar.chart_drawing import plot_cells
from unilab_sidecar.chart_legend import Named, at_cursor, place_words
from unilab_sidecar.chart_panes import (
    GAP,
    Arranged,
    ChartData,
    Panes,
    earlier_courses,
    named_courses,
)
from unilab_sidecar.chart_picker import picker_lines
from unilab_sidecar.chart_state import KEYS, ChartContext, ChartState, window
from unilab_sidecar.chart_store import MAX_TAGS
from unilab_sidecar.key_help import edge_hint
from unilab_sidecar.layout import FRAME_CELLS, FRAME_ROWS, Screen
from unilab_sidecar.text import Block, Line, Segment, beside, clean, clip, fit, line, line_width

__all__ = ["ChartData", "context", "usual", "view"]

SIDE_FROM = 120
_SIDE_CELLS = 35
_LEAST_ROWS = 6
"""Of a chart with its heading and its rule."""
_ACROSS_CELLS = 56
_NAMES: dict[XAxis, str] = {"iteration": "iteration", "env_steps": "env steps", "time": "time"}
_OVERLAYS = {"apart": "", "together": "one value axis", "scaled": "each on its own scale"}
_USUAL = ("Train/mean_reward", "Loss/critic", "Loss/actor", "Loss/value", "Loss/surrogate",
          "Policy/mean_std", "Perf/total_fps")  # fmt: skip
_PLAIN = str.maketrans("·…←→↑↓▸─│┤└┴▲▏┄×", "-~<>^v>-|++|^|-x")


def usual(known: tuple[str, ...], most: int = 3) -> tuple[str, ...]:
    """Tags worth a look when nobody has chosen any."""
    return tuple(tag for tag in _USUAL if tag in known)[:most]


def context(data: ChartData, state: ChartState, columns: int, rows: int) -> ChartContext:
    """What ``press`` needs to know about this screen."""
    named = named_courses(data, state)
    whole = _whole(data, state, named)
    arranged = _arrange(state, columns, rows)
    reference = max((one.bins for one in named), key=len, default=None)
    if reference is None:
        return ChartContext(data.known, whole, arranged.cells, live=data.live, earlier=data.earlier)
    return ChartContext(data.known, whole, arranged.cells, reference, data.live, data.earlier)


def view(
    data: ChartData, state: ChartState, columns: int, rows: int, *, unicode: bool = True
) -> Screen:
    """The charts on a terminal of ``columns`` by ``rows``. Never raises, whatever the size.

    ``unicode``: braille dots and lines; without it letters and ASCII only (but for the tags).
    """
    width, room = max(columns - FRAME_CELLS, 1), max(rows - FRAME_ROWS, 1)
    if state.picker is not None:
        lines = picker_lines(state.picker, data.known, width, room, MAX_TAGS)
    else:
        lines = _charts(data, state, columns, rows, unicode=unicode)
    shown = [clip(parts, width) for parts in lines[:room]]
    hint = "" if state.picker is not None else edge_hint(KEYS, width)
    screen = Screen("Charts", hint, shown)
    return screen if unicode else _ascii(screen)


def _arrange(state: ChartState, columns: int, rows: int) -> Arranged:
    width, room = max(columns - FRAME_CELLS, 1), max(rows - FRAME_ROWS, 1)
    side = _SIDE_CELLS if columns >= SIDE_FROM else 0
    charts = width - (side + GAP if side else 0)
    space = max(room - 3, 1)
    count = len(state.shown)
    if state.overlay != "apart" or count <= 1:
        legend = 0 if side or count <= 1 else min(count, max(space - _LEAST_ROWS, 0))
        ends = state.overlay != "apart" and count > 1
        cells = plot_cells(charts, ends=ends)
        return Arranged(charts, side, 1, (max(space - legend, 1),), 0, cells)
    fitting = max(space // _LEAST_ROWS, 1)
    across = 2 if count > fitting and charts >= 2 * _ACROSS_CELLS else 1
    each = (charts - (across - 1) * GAP) // across
    down = min(fitting, -(-count // across))
    heights = tuple(space // down + (place < space % down) for place in range(down))
    shown = down * across
    first = min(max(state.focus - shown // 2, 0), max(count - shown, 0))
    return Arranged(charts, side, across, heights, first, plot_cells(each))


def _whole(data: ChartData, state: ChartState, named: list[Named]) -> Span | None:
    courses = [one.bins for one in named]
    courses += [bins for one in named for bins in earlier_courses(data, state, one.tag)]
    spans = [span for bins in courses if (span := bins.span(state.x_axis)) is not None]
    if not spans:
        return None
    return Span(min(span.low for span in spans), max(span.high for span in spans))


def _charts(data: ChartData, state: ChartState, columns: int, rows: int, *, unicode: bool) -> Block:
    width = max(columns - FRAME_CELLS, 1)
    if not state.shown:
        return _nothing_chosen(data, width)
    named = named_courses(data, state)
    whole = _whole(data, state, named)
    if whole is None:
        return _nothing_there(data, state, named)
    span = window(state, whole, live=data.live)
    arranged = _arrange(state, columns, rows)
    panes = Panes(data, state, span, arranged, unicode)
    if state.overlay == "apart" or len(named) == 1:
        body = panes.apart(named)
    else:
        body = panes.overlaid(named)
    if arranged.side:
        widths = [arranged.width, arranged.side]
        body = beside([body, panes.side(named)], widths, GAP)
    return [_header(panes, whole, width), _place(panes, named, width), *body]


def _header(panes: Panes, whole: Span, width: int) -> Line:
    state, span = panes.state, panes.span
    ends = [_on_axis(min(value, whole.high), state.x_axis) for value in span]
    parts: list[Segment] = [
        Segment(f"{_NAMES[state.x_axis]} ", "heading"),
        Segment(f"{ends[0]} to {ends[1]}", "value"),
    ]
    if state.zoom is None:
        said = ["whole run"]
    else:
        times = (whole.high - whole.low) / max(span.high - span.low, 1e-300)
        said = [f"zoom {times:.3g}×" if times < 1000 else f"zoom {short_number(times)}×"]
        said += ["follows the newest"] if state.zoom.high is None else []
    said += ["log scale"] if state.log_y else []
    said += [_OVERLAYS[state.overlay]] if len(state.shown) > 1 else []
    loaded = min((panes.data.store.progress(tag) for tag in state.shown), default=1.0)
    said += [f"loading {100 * loaded:.0f} %"] if loaded < 1 else []
    shown = len(panes.arranged.heights) * panes.arranged.across
    if state.overlay == "apart" and len(state.shown) > shown:
        first = panes.arranged.first
        said.append(f"{first + 1} to {first + shown} of {len(state.shown)} charts")
    parts += [Segment(f" · {text}", "label") for text in said if text]
    if any(earlier_courses(panes.data, state, tag) for tag in state.shown):
        label = f" · ┄ {clean(panes.data.compare_label) or 'earlier run'}"
        parts.append(Segment(fit(label, max(width - line_width(parts), 0)), "dim"))
    return line(*parts)


def _place(panes: Panes, named: list[Named], width: int) -> Line:
    """Where the cursor is, on every axis; without one, how far the run is."""
    focused = panes.state.tags[min(panes.state.focus, len(panes.state.tags) - 1)]
    one = next((one for one in named if one.tag == focused and len(one.bins)), None)
    one = one or max(named, key=lambda one: len(one.bins))
    cursor = panes.state.cursor
    if cursor is None:
        mark = "newest"
        words = place_words(Bins(one.bins.table[:, -1:]))
    else:
        found = at_cursor(one.bins, panes.state.x_axis, panes.span, panes.cells, cursor)
        mark, words = "▲", place_words(found)
    parts = [Segment(mark, "label")]
    for place, (name, value) in enumerate(words):
        more = [Segment(f"{'   ' if place else ' '}{name} ", "label"), Segment(value, "value")]
        if line_width([*parts, *more]) > width:
            break
        parts += more
    return line(*parts)


def _on_axis(value: float, axis: XAxis) -> str:
    return time_label(value) if axis == "time" else f"{value:,.0f}"


def _nothing_chosen(data: ChartData, width: int) -> Block:
    if not data.known:
        return [
            (),
            line(Segment("No tag has come yet: charts begin with the first update.", "label")),
        ]
    lines: Block = [
        (),
        line(Segment("No chart yet. Press ", "label"), Segment("/", "value"),
             Segment(f" to choose among {len(data.known):,} tags:", "label")),
        line(Segment("type a few letters, then Enter.", "label")),
        (),
    ]  # fmt: skip
    lines += [
        line(Segment(f"  {key.keys:<11}", "value"), Segment(key.long, "label")) for key in KEYS
    ]
    return [clip(parts, width) for parts in lines]


def _nothing_there(data: ChartData, state: ChartState, named: list[Named]) -> Block:
    loaded = min(data.store.progress(one.tag) for one in named)
    if any(len(one.bins) for one in named):
        text = f"Nobody says the {_NAMES[state.x_axis]} of these values: x for another axis."
    elif loaded < 1:
        text = f"Loading the history: {100 * loaded:.0f} %"
    else:
        text = "No value of these tags yet."
    names = ", ".join(clean(one.tag) for one in named)
    return [(), line(Segment(text, "label")), line(Segment(names, "dim"))]


def _ascii(screen: Screen) -> Screen:
    lines = [
        tuple(Segment(p.text.translate(_PLAIN), p.style) for p in parts) for parts in screen.lines
    ]
    return Screen(screen.title, screen.hint.translate(_PLAIN), lines)
