"""What somebody has chosen to see of the events and of the console, and what each key changes.
Pure.

Both lists scroll by themselves. The console's place is a line's number, not a distance from its
end: it stays where it is while lines are added below or above.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from unilab_sidecar.looking.key_help import KeyHelp

Part = Literal["console", "events"]

KEYS = (
    KeyHelp("Tab", "other half", "from the console to the events and back"),
    KeyHelp("Enter", "zoom", "the chosen half alone, and back"),
    KeyHelp("↑ ↓", "scroll", "scroll by a line; Page Up, Page Down, Home"),
    KeyHelp("End", "follow", "to the newest line of the console, and follow it"),
    KeyHelp("← →", "sideways", "long lines of the console: to their end and back"),
    KeyHelp("/", "filter", "both halves: words, !not, /regex/"),
    KeyHelp("Esc", "back", "out of the zoom, then back to the newest"),
)
STEP_CELLS = 16
_FAR_CELLS = 2000


@dataclass(frozen=True, slots=True)
class EventsState:
    """``focus``: whose keys the arrows are. ``first``: of the events, the first line that is shown.
    ``top``: the number of the console's first line on the screen, ``None`` while it follows its
    end; ``known``: the number behind the last line that there was when it was scrolled away from
    its end. ``left``: cells of long lines that are left out at their beginning."""

    focus: Part = "console"
    zoomed: bool = False
    first: int = 0
    top: int | None = None
    known: int = 0
    left: int = 0


class EventsContext(NamedTuple):
    """What keys need to know about the screen. ``numbers``: of the console's lines that pass the
    filter, rising; ``begin`` and ``end`` of all that are held. ``space``: lines that the console
    shows. ``events`` and ``events_space``: the same of the events. ``has_console``: there is
    one."""

    numbers: Sequence[int] = ()
    begin: int = 0
    end: int = 0
    space: int = 1
    events: int = 0
    events_space: int = 1
    has_console: bool = False


def top_index(top: int | None, numbers: Sequence[int], space: int) -> int:
    """Which of ``numbers`` the first row shows; never so far down that there is less than fits."""
    last = max(len(numbers) - space, 0)
    return last if top is None else min(bisect_left(numbers, top), last)


def focused(state: EventsState, *, has_console: bool) -> Part:
    """Whose the keys are: without a console the events'."""
    return state.focus if has_console else "events"


def press(state: EventsState, key: str, context: EventsContext) -> EventsState:
    """The state after a key. ``key``: Textual's name. A key without a meaning here gives the very
    same state, so that others may have it."""
    if key in ("tab", "shift+tab") and context.has_console:
        return replace(state, focus="events" if state.focus == "console" else "console")
    if key == "enter" and context.has_console:
        return replace(state, zoomed=not state.zoomed)
    if key == "escape":
        if state.zoomed:
            return replace(state, zoomed=False)
        is_moved = state.top is not None or state.first or state.left
        return replace(state, top=None, first=0, left=0) if is_moved else state
    if focused(state, has_console=context.has_console) == "console":
        return _in_console(state, key, context)
    last = max(context.events - context.events_space, 0)
    to = _moved(key, min(state.first, last), last, context.events_space)
    return state if to is None else replace(state, first=to)


def _in_console(state: EventsState, key: str, context: EventsContext) -> EventsState:
    if key in ("left", "right"):
        step = STEP_CELLS if key == "right" else -STEP_CELLS
        return replace(state, left=min(max(state.left + step, 0), _FAR_CELLS))
    last = max(len(context.numbers) - context.space, 0)
    to = _moved(key, top_index(state.top, context.numbers, context.space), last, context.space)
    if to is None:
        return state
    if to == last and key not in ("up", "k", "pageup", "home"):
        return replace(state, top=None)
    if not last:
        return replace(state, top=context.begin if key in ("pageup", "home") else state.top)
    known = context.end if state.top is None else state.known
    # At the very first one, what comes before is meant too, once it has been read.
    return replace(state, top=context.numbers[to] if to else context.begin, known=known)


def _moved(key: str, now: int, last: int, space: int) -> int | None:
    page = max(space - 1, 1)
    steps = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -page, "pagedown": page,
             "home": -now, "end": last - now}  # fmt: skip
    return min(max(now + steps[key], 0), last) if key in steps else None
