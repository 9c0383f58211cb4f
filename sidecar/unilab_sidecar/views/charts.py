"""The charts: any tags, several at once, over the whole run or a part of it. Pure.

The app asks for ``data.store``'s history (:mod:`unilab_sidecar.charting.store`), keeps a
:class:`~unilab_sidecar.charting.state.ChartState`, and gives keys to its ``press`` with the
:func:`context` from here.
"""

from __future__ import annotations

from functools import lru_cache

from unilab_schema.known_names import USUAL_LOSSES, tag_of
from unilab_sidecar.charting.axes import short_number, span_words
from unilab_sidecar.charting.bins import NO_BINS, Bins, Span, XAxis
from unilab_sidecar.charting.detail import Window
from unilab_sidecar.charting.drawing import EARLIER, plot_cells
from unilab_sidecar.charting.earlier_label import earlier_words
from unilab_sidecar.charting.legend import Named, at_cursor, place_words
from unilab_sidecar.charting.panes import (
    GAP,
    Arranged,
    ChartData,
    Panes,
    awaited,
    earlier_courses,
    named_courses,
)
from unilab_sidecar.charting.picker import picker_lines
from unilab_sidecar.charting.places import least_width, newest_of
from unilab_sidecar.charting.state import KEYS, ChartContext, ChartState, window
from unilab_sidecar.charting.store import MAX_TAGS
from unilab_sidecar.drawing.layout import FRAME_CELLS, FRAME_ROWS, Screen
from unilab_sidecar.drawing.text import (
    Block,
    Line,
    Segment,
    beside,
    clean,
    clip,
    line,
    line_width,
    width_of,
)
from unilab_sidecar.looking.key_help import edge_hint

__all__ = ["ChartData", "context", "usual", "view", "window_of"]

SIDE_FROM = 120
_SIDE_CELLS = 35
_LEAST_ROWS = 6
"""Of a chart with its heading and its rule."""
_ACROSS_CELLS = 56
_BESIDE = " · ┄ "
_NAMES: dict[XAxis, str] = {"iteration": "iteration", "env_steps": "env steps", "time": "time"}
_OVERLAYS = {"apart": "", "together": "one value axis", "scaled": "each on its own scale"}
_PLAIN = str.maketrans("·…←→↑↓▸─│┤└┴▲▏┄×", "-~<>^v>-|++|^|.x")


@lru_cache(maxsize=8)
def usual(known: tuple[str, ...], most: int = 3, reward_tag: str = "") -> tuple[str, ...]:
    """Tags worth a look when nobody has chosen any. ``reward_tag``: the run's own."""
    there = frozenset(known)
    wanted = (
        tag_of("reward", there, reward_tag),
        *USUAL_LOSSES,
        "Policy/mean_std",
        tag_of("steps_per_s", there),
    )
    return tuple(tag for tag in wanted if tag in there)[:most]


def context(data: ChartData, state: ChartState, columns: int, rows: int) -> ChartContext:
    """What ``press`` needs to know about this screen."""
    named = named_courses(data, state)
    whole = _whole(data, state, named)
    arranged = _arrange(data, state, columns, rows)
    return ChartContext(
        data.known, whole, arranged.cells, _longest(named), data.live, data.earlier,
        tuple(_courses(data, state, named)), _newest(state, named),
    )  # fmt: skip


def window_of(data: ChartData, state: ChartState) -> Window | None:
    """The part of the run that is looked at, or all of it; ``None`` where that is nothing."""
    if state.picker is not None or not state.shown:
        return None
    named = named_courses(data, state)
    if (whole := _whole(data, state, named)) is None:
        return None
    span = window(state, whole, _newest(state, named), live=data.live)
    return Window(state.shown, state.x_axis, span, len(data.known), state.zoom is None)


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


def _arrange(data: ChartData, state: ChartState, columns: int, rows: int) -> Arranged:
    width, room = max(columns - FRAME_CELLS, 1), max(rows - FRAME_ROWS, 1)
    space = max(room - 3, 1)
    count = len(state.shown)
    # Charts of their own have their figures above them, and all of the width.
    is_apart = state.overlay == "apart" or count <= 1
    side = _SIDE_CELLS if columns >= SIDE_FROM and not is_apart else 0
    charts = width - (side + GAP if side else 0)
    if not is_apart:
        legend = 0 if side else min(count, max(space - _LEAST_ROWS, 0))
        cells = plot_cells(charts, ends=True)
        return Arranged(charts, side, 1, (max(space - legend, 1),), 0, cells, state.shown)
    without = awaited(data, state)
    drawn = tuple(tag for tag in state.shown if tag not in without)
    space, count = max(space - bool(without), 1), len(drawn)
    fitting = max(space // _LEAST_ROWS, 1)
    across = 2 if count > fitting and charts >= 2 * _ACROSS_CELLS else 1
    each = (charts - (across - 1) * GAP) // across
    down = min(fitting, -(-count // across))
    heights = tuple(space // down + (place < space % down) for place in range(down))
    shown = down * across
    focus = sum(tag in drawn for tag in state.shown[: state.focus])
    first = min(max(focus - shown // 2, 0), max(count - shown, 0))
    return Arranged(charts, side, across, heights, first, plot_cells(each), drawn)


def _longest(named: list[Named]) -> Bins:
    return max((one.bins for one in named), key=len, default=NO_BINS)


def _newest(state: ChartState, named: list[Named]) -> float | None:
    return newest_of([one.bins for one in named], state.x_axis)


def _courses(data: ChartData, state: ChartState, named: list[Named]) -> list[Bins]:
    courses = [one.bins for one in named]
    return courses + [bins for one in named for bins in earlier_courses(data, state, one.tag)]


def _whole(data: ChartData, state: ChartState, named: list[Named]) -> Span | None:
    courses = _courses(data, state, named)
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
    span = window(state, whole, _newest(state, named), live=data.live)
    arranged = _arrange(data, state, columns, rows)
    panes = Panes(data, state, span, arranged, unicode)
    if state.overlay == "apart" or len(named) == 1:
        body = panes.apart(named)
    else:
        body = panes.overlaid(named)
    if arranged.side:
        widths = [arranged.width, arranged.side]
        body = beside([body, panes.side(named)], widths, GAP)
    return [_header(panes, named, whole, width), _place(panes, named, width), *body]


def _header(panes: Panes, named: list[Named], whole: Span, width: int) -> Line:
    state, span = panes.state, panes.span
    follows = state.zoom is not None and state.zoom.high is None
    end = _newest(state, named) if follows else None
    shown = Span(span.low, min(span.high, whole.high if end is None else max(end, span.low)))
    # Of a tag that nobody has logged there is nothing to wait for.
    coming = set(state.shown) - set(awaited(panes.data, state))
    loaded = min((panes.data.store.progress(tag) for tag in coming), default=1.0)
    is_partial = any(panes.data.store.is_partial(tag) for tag in coming)
    parts: list[Segment] = [
        Segment(f"{_NAMES[state.x_axis]} ", "heading"),
        Segment(span_words(shown, state.x_axis), "value"),
    ]
    if state.zoom is None:
        said = ["whole run"] if loaded == 1 and not is_partial else []
        said = ["without what came later"] if panes.data.is_behind else said
        said = ["played so far"] if panes.data.is_played else said
    else:
        times = (whole.high - whole.low) / max(span.high - span.low, 1e-300)
        said = [f"zoom {times:.3g}×" if times < 1000 else f"zoom {short_number(times)}×"]
        said[0] += ", the closest" if _is_closest(panes, span) else ""
        said += ["follows the newest"] if follows else []
        said += ["held by the cursor"] if state.zoom.is_held else []
    said += ["a part of the history is lost"] if is_partial else []
    said += ["log scale"] if state.log_y else []
    said += [_OVERLAYS[state.overlay]] if len(state.shown) > 1 else []
    loaded = min(loaded, panes.data.finer)
    said += [f"loading {100 * loaded:.0f} %"] if loaded < 1 else []
    shown = len(panes.arranged.heights) * panes.arranged.across
    count = len(panes.arranged.drawn)
    if state.overlay == "apart" and count > shown:
        first = panes.arranged.first
        said.append(f"{first + 1} to {first + shown} of {count} charts")
    # The key would do it otherwise, and what a key does has to be seen: before all that was there.
    has_none = not panes.data.earlier and panes.data.compare is None
    said = ["no earlier run of this task here", *said] if has_none and not state.compare else said
    parts += [Segment(f" · {text}", "label") for text in said if text]
    if panes.data.compare is not None and state.compare:
        room = width - line_width(parts) - width_of(_BESIDE)
        said = earlier_words(panes.data.compare, panes.data.compare_label, state.shown, room)
        style = "value" if panes.is_overlaid else EARLIER
        parts.append(Segment(f"{_BESIDE}{said}", style))
    return line(*parts)


def _place(panes: Panes, named: list[Named], width: int) -> Line:
    """Where the cursor is, on every axis; without one, how far the run is."""
    focused = panes.state.tags[min(panes.state.focus, len(panes.state.tags) - 1)]
    one = next((one for one in named if one.tag == focused and len(one.bins)), None)
    one = one or max(named, key=lambda one: len(one.bins))
    cursor = panes.state.cursor
    if cursor is None:
        mark = "last drawn" if panes.data.is_behind else "newest"
        words = place_words(Bins(one.bins.table[:, -1:]), panes.span, panes.state.x_axis)
    else:
        # Where this one has nothing, another one has, as the earlier run behind the newest.
        mark, words = "▲", []
        for bins in (one.bins, *_courses(panes.data, panes.state, named)):
            found = at_cursor(bins, panes.state.x_axis, panes.span, panes.cells, cursor)
            words = words or place_words(found, panes.span, panes.state.x_axis)
    parts = [Segment(mark, "label")]
    for place, (name, value) in enumerate(words):
        more = [Segment(f"{'   ' if place else ' '}{name} ", "label"), Segment(value, "value")]
        if line_width([*parts, *more]) > width:
            break
        parts += more
    return line(*parts)


def _is_closest(panes: Panes, span: Span) -> bool:
    reference = _longest(named_courses(panes.data, panes.state))
    least = least_width(reference, panes.state.x_axis, span)
    return span.high - span.low <= least * (1 + 1e-9)


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
    # The hint is still to be cut between its keys.
    return Screen(screen.title, screen.hint, lines)
