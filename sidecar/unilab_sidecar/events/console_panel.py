"""The console's half of key 4: lines of output as they fit, and where one is in them. Pure.

A line takes one row: what is longer is cut with an ellipsis and can be moved sideways.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from unilab_sidecar.drawing.flow import flowed
from unilab_sidecar.drawing.text import Block, Line, Segment, clean, clip, cut, fit, line, width_of
from unilab_sidecar.events.console_lines import ConsoleText
from unilab_sidecar.events.event_state import top_index
from unilab_sidecar.looking.viewing import ViewState
from unilab_sidecar.panels.parts import heading

_TIMELESS = (
    "its end: when it was printed is not kept",
    "its end: no times are kept",
    "no times are kept",
)
"""The first that has room."""
_TITLE_CELLS = 12
"""With a mark, and what parts it from a note."""


class Size(NamedTuple):
    """In cells and rows."""

    width: int
    height: int


def console_pane(
    console: ConsoleText,
    state: ViewState,
    size: Size,
    *,
    is_past: bool = False,
    is_marked: bool = False,
) -> Block:
    """The console in at most ``size``. ``is_past``: the rest of the screen shows a moment of the
    past; output has no times, so it is not of that moment. ``is_marked``: the keys are for it."""
    width, space = max(size.width, 1), max(size.height - 1, 1)
    if not console.is_kept:
        said = console.state or "◌ asking for what the training prints"
        told = flowed(None, [Segment(clean(said), "label")], width)
        return [heading("Console", width), *told]
    numbers = console.numbers(state.filter)
    first = top_index(state.events.top, numbers, space)
    shown = [_row(console.line(number), state.events.left, width) for number in
             numbers[first : first + space]]  # fmt: skip
    if first == 0 and console.above and shown and state.events.top is not None:
        shown[0] = line(Segment(fit(console.above, width), "dim"))
    if not shown:
        is_filtered = bool(console.chunks)
        text = "No line passes this filter: Esc clears it." if is_filtered else "Nothing yet."
        shown = [line(Segment(fit(text, width), "label"))]
    below = len(numbers) - first - space
    room = max(width - _TITLE_CELLS, 0)
    note = fit(_note(console, state, below, room, is_past=is_past), room)
    made = [clip(heading("Console", width, note=note), width), *shown]
    made += [()] * (size.height - len(made))
    if below > 0 and size.height > 2:
        new = len(numbers) - bisect_left(numbers, state.events.known)
        text = f"↓ {new:,} new lines below" if new > 0 else f"↓ {below:,} lines below"
        made[-1] = line(Segment(fit(f"{text} · End", width), "accent" if new > 0 else "dim"))
    return marked(made) if is_marked else made


def marked(block: Block) -> Block:
    """The pane that the keys are for, by a mark on its heading."""
    if not block or len(block[0]) < 2:
        return block
    first, rule, *rest = block[0]
    shorter = Segment(rule.text[:-2], rule.style)
    return [(Segment(f"▸ {first.text}", "focus"), shorter, *rest), *block[1:]]


def _note(console: ConsoleText, state: ViewState, below: int, room: int, *, is_past: bool) -> str:
    if console.state:
        return clean(console.state)
    if is_past:
        return next((text for text in _TIMELESS if width_of(text) <= room), _TIMELESS[-1])
    place = "following" if below <= 0 else "scrolled back"
    sideways = f", from cell {state.events.left}" if state.events.left else ""
    return f"{console.end - console.begin:,} lines, {place}{sideways}"


def _row(text: str, left: int, width: int) -> Line:
    shown = clean(text)
    if left:
        skipped = cut(shown, left)
        shown = "…" + shown[len(skipped) :] if shown[len(skipped) :] else "…" * bool(shown)
    return line(Segment(fit(shown, width) if width_of(shown) > width else shown))
