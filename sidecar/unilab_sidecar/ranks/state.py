"""What somebody has chosen to see of the ranks, and what each key changes. Pure.

``KEYS`` has the keys, named as people know them, and the words for the help. While tags are
chosen, keys go to :mod:`unilab_sidecar.charting.picker`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from unilab_sidecar.charting.picker import Picker, pick
from unilab_sidecar.looking.key_help import KeyHelp

Order = Literal["rank", "slowest", "age"]
ORDERS: tuple[Order, ...] = ("rank", "slowest", "age")
MAX_TAGS = 8

KEYS = (
    KeyHelp("o", "order", "order: by rank, slowest first, oldest first"),
    KeyHelp("/", "choose tags", "choose tags: words, !not, /regex/"),
    KeyHelp("c", "collectors", "collectors below their learners, or only those in trouble"),
    KeyHelp("↑ ↓", "scroll", "scroll by a row; Page Up, Page Down, Home, End"),
    KeyHelp("Del", "remove", "remove the tag that was chosen last"),
    KeyHelp("Esc", "back", "back to the first row"),
)


@dataclass(frozen=True, slots=True)
class RanksState:
    """``tags``: chosen columns, empty for the usual ones. ``first``: the first row that is
    shown. ``collectors``: all of them are shown. ``picker``: tags are being chosen."""

    order: Order = "rank"
    tags: tuple[str, ...] = ()
    first: int = 0
    collectors: bool = True
    picker: Picker | None = None


class RanksContext(NamedTuple):
    """What the keys need to know. ``known``: all tags of the run. ``lines``: rows that there
    are, ``space``: that fit, see ``views.ranks.context``."""

    known: tuple[str, ...] = ()
    lines: int = 0
    space: int = 1


def first_row(state: RanksState, count: int, space: int) -> int:
    """The first row that is shown: never so far down that there is less than fits."""
    return min(max(state.first, 0), max(count - space, 0))


def press(
    state: RanksState, key: str, context: RanksContext, character: str | None = None
) -> RanksState:
    """The state after a key. ``key``: Textual's name; ``character``: what it types, if it does.
    A key without a meaning here gives the very same state, so that others may have it."""
    if character is None and len(key) == 1:
        character = key
    if state.picker is not None:
        return _picked(state, state.picker, key, character, context)
    if key in ("t", "slash") or character == "/":
        return replace(state, picker=Picker(chosen=state.tags))
    if key == "o":
        following = ORDERS[(ORDERS.index(state.order) + 1) % len(ORDERS)]
        return replace(state, order=following, first=0)
    if key == "c":
        return replace(state, collectors=not state.collectors, first=0)
    if key in ("delete", "backspace") and state.tags:
        return replace(state, tags=state.tags[:-1])
    if key == "escape":
        return replace(state, first=0) if state.first else state
    return _scrolled(state, key, context)


def _picked(
    state: RanksState, picker: Picker, key: str, character: str | None, context: RanksContext
) -> RanksState:
    picker = pick(picker, key, character, context.known, MAX_TAGS)
    if picker.closed is None:
        return replace(state, picker=picker)
    tags = picker.chosen if picker.closed == "taken" else state.tags
    return replace(state, tags=tags, picker=None)


def _scrolled(state: RanksState, key: str, context: RanksContext) -> RanksState:
    last = max(context.lines - context.space, 0)
    now = first_row(state, context.lines, context.space)
    page = max(context.space - 1, 1)
    steps = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -page, "pagedown": page,
             "home": -now, "end": last - now}  # fmt: skip
    if key not in steps:
        return state
    return replace(state, first=min(max(now + steps[key], 0), last))
