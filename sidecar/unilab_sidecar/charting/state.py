"""What somebody has chosen to see in the charts, and what each key changes. Pure.

Keys, named as Textual names them (``KEYS`` has the words for the help):

========================  ==============================================================
``/`` ``t`` ``Enter``     choose tags (Enter only while none is chosen)
``x``                     x axis: iteration, environment steps, time
``l`` ``y``               logarithmic value axis
``o``                     one chart per tag, one chart for all, all on their own scales
``c``                     the earlier run, if there is one
``←`` ``→``               cursor by a column, or to the next point where those lie further apart
                          (``Shift``: by ten); the first time at the end. It stays on points
``Home`` ``End``          cursor to the ends of the window, which does not go on beside one
``+`` ``-`` ``0``         zoom in and out around the cursor (else the newest), down to five
                          updates; all of it
``Page Up`` ``Page Down``  the window by half of itself, back and forth
``↑`` ``↓``               the chart that is meant by the next keys, and by the cursor's line
``Enter``                 that chart alone, and back
``Delete`` ``Backspace``  that tag away
``Esc``                   back: cursor, then zoom, then the enlarged chart
========================  ==============================================================

While tags are chosen, keys go to :mod:`unilab_sidecar.charting.picker`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from unilab_sidecar.charting.bins import NO_BINS, Bins, Span, XAxis
from unilab_sidecar.charting.picker import Picker, pick
from unilab_sidecar.charting.places import least_width, on_point, stepped
from unilab_sidecar.charting.store import MAX_TAGS
from unilab_sidecar.charting.zoom import Zoom, ahead, end_at
from unilab_sidecar.looking.key_help import KeyHelp

Overlay = Literal["apart", "together", "scaled"]


KEYS = (
    KeyHelp("/", "choose tags", "choose tags: words, !not, /regex/"),
    KeyHelp("x", "x axis", "x axis: iteration, environment steps, time"),
    KeyHelp("l y", "log scale", "logarithmic value axis"),
    KeyHelp("o", "overlay", "one chart per tag; one for all; one for all, each on its own scale"),
    KeyHelp("c", "compare", "compare with an earlier run of this task, then the one before"),
    KeyHelp("← →", "cursor", "cursor (Shift: by ten); Home and End: to the edges"),
    KeyHelp("+ - 0", "zoom", "zoom in and out around the cursor; 0: the whole run"),
    KeyHelp("PgUp PgDn", "move", "move the window by half"),
    KeyHelp("↑ ↓ Enter", "one chart", "mark another chart; Enter: that one alone, and back"),
    KeyHelp("Del", "remove", "remove the marked chart"),
    KeyHelp("Esc", "back", "back: cursor, zoom, enlarged chart"),
)
_AXES: tuple[XAxis, ...] = ("iteration", "env_steps", "time")
_OVERLAYS: tuple[Overlay, ...] = ("apart", "together", "scaled")


@dataclass(frozen=True, slots=True)
class ChartState:
    """``cursor``: a place on the x axis, ``None`` without one. ``focus``: the tag that the next
    keys mean, by place among ``tags``. ``alone``: only that one is drawn. ``picker``: tags are
    being chosen. ``compare``: the earlier run is drawn, if there is one. ``earlier``: which one, by
    its place among them, -1: none is chosen."""

    tags: tuple[str, ...] = ()
    x_axis: XAxis = "iteration"
    log_y: bool = False
    zoom: Zoom | None = None
    cursor: float | None = None
    overlay: Overlay = "apart"
    compare: bool = True
    earlier: int = -1
    focus: int = 0
    alone: bool = False
    picker: Picker | None = None

    @property
    def shown(self) -> tuple[str, ...]:
        """The tags that are drawn now."""
        if self.alone and self.tags:
            return (self.tags[min(self.focus, len(self.tags) - 1)],)
        return self.tags


class ChartContext(NamedTuple):
    """What the keys need to know. ``known``: all tags of the run, sorted. ``whole``: what the
    x axis covers without a zoom, ``None`` without data; ``newest``: the run's newest update on it,
    ``None``: at its end. ``cells``: columns of the curves, from
    ``views.charts.cells_of``. ``reference``: bins of one of the tags, to find a place again when
    the x axis changes. ``live``: the run goes on. ``earlier``: how many earlier runs there are.
    ``courses``: all that is drawn, on which the cursor may stand."""

    known: tuple[str, ...] = ()
    whole: Span | None = None
    cells: int = 80
    reference: Bins = NO_BINS
    live: bool = False
    earlier: int = 0
    courses: tuple[Bins, ...] = ()
    newest: float | None = None


def window(
    state: ChartState, whole: Span, newest: float | None = None, *, live: bool = False
) -> Span:
    """The part of the x axis that is shown. ``newest``: as of :class:`ChartContext`.

    ``live``: its right end goes ahead of the newest by steps of an eighth at most, so that a
    picture only grows at its end, instead of moving as a whole with each update (which a slow
    line has to carry).
    """
    if state.zoom is None:
        width = whole.high - whole.low
        return Span(whole.low, whole.low + ahead(width, width)) if live else whole
    if state.zoom.high is not None:
        return Span(state.zoom.high - state.zoom.width, state.zoom.high)
    high = end_at(newest, state.zoom.width, whole)
    high = ahead(high, state.zoom.width) if live else high
    return Span(high - state.zoom.width, high)


def press(
    state: ChartState, key: str, context: ChartContext, character: str | None = None
) -> ChartState:
    """The state after a key. ``key``: Textual's name; ``character``: what it types, if it does.
    A key without a meaning here gives the very same state, so that others may have it."""
    if character is None and len(key) == 1:
        character = key
    if state.picker is not None:
        return _picked(state, key, context, character)
    if key in ("t", "slash") or character == "/" or (key == "enter" and not state.tags):
        return replace(state, picker=Picker(chosen=state.tags))
    if key == "escape":
        return _back(state)
    for change in (_among_charts(state, key), _switched(state, key, context)):
        if change is not None:
            return change
    if context.whole is None:
        return state
    return _moved(state, key, character, context, context.whole)


def _picked(
    state: ChartState, key: str, context: ChartContext, character: str | None
) -> ChartState:
    picker = pick(state.picker or Picker(), key, character, context.known, MAX_TAGS)
    if picker.closed is None:
        return replace(state, picker=picker)
    tags = picker.chosen if picker.closed == "taken" else state.tags
    focus = max(min(state.focus, len(tags) - 1), 0)
    return replace(state, tags=tags, picker=None, focus=focus, alone=state.alone and bool(tags))


def _back(state: ChartState) -> ChartState:
    if state.cursor is not None:
        return replace(state, cursor=None, zoom=state.zoom and state.zoom.released())
    if state.zoom is not None:
        return replace(state, zoom=None)
    return replace(state, alone=False) if state.alone else state


def _among_charts(state: ChartState, key: str) -> ChartState | None:
    if not state.tags:
        return None
    if key == "enter":
        return replace(state, alone=not state.alone)
    if key in ("up", "down"):
        focus = state.focus + (1 if key == "down" else -1)
        return replace(state, focus=min(max(focus, 0), len(state.tags) - 1))
    if key in ("delete", "backspace"):
        kept = tuple(tag for place, tag in enumerate(state.tags) if place != state.focus)
        focus = max(min(state.focus, len(kept) - 1), 0)
        return replace(state, tags=kept, focus=focus, alone=False)
    return None


def _switched(state: ChartState, key: str, context: ChartContext) -> ChartState | None:
    if key in ("l", "y"):
        return replace(state, log_y=not state.log_y)
    if key == "o":
        following = _OVERLAYS[(_OVERLAYS.index(state.overlay) + 1) % len(_OVERLAYS)]
        return replace(state, overlay=following)
    if key == "c":
        if context.earlier:
            following = state.earlier + 1
            following = following if following < context.earlier else -1
            # Until somebody has told of them the key has meant something else.
            return replace(state, earlier=following, compare=True)
        return replace(state, compare=not state.compare)
    if key == "x":
        axis = _AXES[(_AXES.index(state.x_axis) + 1) % len(_AXES)]
        return _on_axis(state, axis, context)
    return None


def _on_axis(state: ChartState, axis: XAxis, context: ChartContext) -> ChartState:
    """The same stretch of the run, and the same place in it, on another axis."""
    cursor, zoom = state.cursor, state.zoom
    if cursor is not None:
        cursor = _translated(cursor, state.x_axis, axis, context.reference)
    if zoom is not None and context.whole is not None:
        ends = [
            _translated(end, state.x_axis, axis, context.reference)
            for end in window(state, context.whole, context.newest, live=context.live)
        ]
        low, high = ends
        is_known = low is not None and high is not None and high > low
        width = high - low if low is not None and high is not None else 0.0
        high = None if zoom.high is None else high
        zoom = zoom._replace(width=width, high=high) if is_known else None
        zoom = zoom and zoom.released() if cursor is None else zoom
    return replace(state, x_axis=axis, cursor=cursor, zoom=zoom)


def _translated(value: float, old: XAxis, new: XAxis, bins: Bins) -> float | None:
    before, after = bins.along(old)[1], bins.along(new)[1]
    is_known = np.isfinite(before) & np.isfinite(after)
    if not is_known.any():
        return None
    order = np.argsort(before[is_known], kind="stable")
    return float(np.interp(value, before[is_known][order], after[is_known][order]))


def _moved(
    state: ChartState, key: str, character: str | None, context: ChartContext, whole: Span
) -> ChartState:
    moved = _elsewhere(state, key, character, context, whole)
    if moved is state or moved.cursor is None:
        return moved
    shown = window(moved, whole, context.newest, live=context.live)
    inside = Span(shown.low, min(shown.high, whole.high))
    zoom = moved.zoom and moved.zoom.held(shown.high)
    cursor = on_point(moved.cursor, context.courses, state.x_axis, inside)
    return replace(moved, cursor=cursor, zoom=zoom)


def _elsewhere(
    state: ChartState, key: str, character: str | None, context: ChartContext, whole: Span
) -> ChartState:
    shown = window(state, whole, context.newest, live=context.live)
    width = shown.high - shown.low
    last = min(shown.high, whole.high)
    newest = end_at(context.newest, width, whole)
    column = width / max(context.cells, 1)
    steps = {"left": -1, "right": 1, "shift+left": -10, "shift+right": 10}
    if key in steps:
        at = last if context.newest is None else context.newest
        at = at if shown.low <= at <= last else last
        if state.cursor is not None:
            at = stepped(state.cursor, steps[key], column, context.courses, state.x_axis)
        return replace(state, cursor=max(min(at, last), shown.low))
    if key in ("home", "end"):
        return replace(state, cursor=shown.low if key == "home" else last)
    if key == "plus" or character in ("+", "="):
        return _zoomed(state, width / 2, shown, whole, context)
    if key == "minus" or character == "-":
        return _zoomed(state, width * 2, shown, whole, context)
    if character == "0":
        return replace(state, zoom=None)
    if key in ("pageup", "pagedown") and state.zoom is not None:
        high = shown.high + (width / 2 if key == "pagedown" else -width / 2)
        if shown.high < newest < high:
            high = newest
        return _at(state, width, high, whole, context.newest)
    return state


def _zoomed(
    state: ChartState, width: float, shown: Span, whole: Span, context: ChartContext
) -> ChartState:
    old = shown.high - shown.low
    if width < old:
        width = max(width, least_width(context.reference, state.x_axis, shown))
        if width >= old:
            return state
    if width >= whole.high - whole.low:
        return replace(state, zoom=None)
    if state.cursor is None:
        follows = state.zoom is None or state.zoom.high is None
        high = end_at(context.newest, width, whole) if follows else shown.high
        return _at(state, width, high, whole, context.newest)
    share = (state.cursor - shown.low) / old if old > 0 else 0.5
    high = state.cursor + (1 - min(max(share, 0.0), 1.0)) * width
    return _at(state, width, high, whole, context.newest)


def _at(
    state: ChartState, width: float, high: float, whole: Span, newest: float | None
) -> ChartState:
    """The window at a place within the whole; at the newest it follows that."""
    high = min(max(high, whole.low + width), whole.high)
    zoom = Zoom(width, None if high == end_at(newest, width, whole) else high)
    low = high - width
    cursor = state.cursor
    if cursor is not None:
        cursor = min(max(cursor, low), low + width)
    return replace(state, zoom=zoom, cursor=cursor)
