"""What somebody looks at, and what each key changes. Pure.

The app gives every key to :func:`press`. A key without a meaning gives the very same state, so
that it scrolls the sheet. What a key asks of the world outside (a file, the end of the view) is
named in ``asked``; the app does it and goes on with :meth:`ViewState.answered`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from unilab_sidecar.charting import state as chart_state
from unilab_sidecar.charting.state import ChartContext, ChartState
from unilab_sidecar.events import event_state
from unilab_sidecar.events.event_state import EventsContext, EventsState
from unilab_sidecar.groups.filtering import MAX_TEXT
from unilab_sidecar.looking.commands_by_name import Palette, matching
from unilab_sidecar.looking.scrubbing import Place, moved
from unilab_sidecar.looking.view_names import THEMES, VIEWS, View
from unilab_sidecar.ranks import state as rank_state
from unilab_sidecar.ranks.state import RanksContext, RanksState

Asked = Literal[
    "", "leave", "interrupted", "put aside", "snapshot", "slower", "faster", "stop", "explain",
    "unread",
]  # fmt: skip

_FILTERED = frozenset({"overview", "events", "bus"})
"""Views whose filter is a line above them; the others have keys of their own for it."""
_ALWAYS: dict[str, Asked] = {
    "ctrl+c": "interrupted",
    "ctrl+backslash": "leave",
    "ctrl+z": "put aside",
}
_ASKED: dict[str | None, Asked] = {"q": "leave", "s": "snapshot"}
_PACE: dict[str | None, Asked] = {"[": "slower", "]": "faster"}


@dataclass(frozen=True, slots=True)
class ViewState:
    """``filters``: of each view, in the order of ``VIEWS``; ``typing``: keys go into that of the
    view. ``focus``: the overview's panel that is meant by Enter, ``zoomed``: it has the screen.
    ``stopping``: whether to stop the training is being asked.
    ``paused_unix_s``: since when the picture stands still, ``None`` while it is live;
    ``paused_words``: the same on a clock on the wall. ``at``: the moment of the run, by its update
    sequence, that is looked at while the picture stands still; ``None`` for the one at which it
    was stopped."""

    view: View = "overview"
    help: bool = False
    palette: Palette | None = None
    filters: tuple[str, ...] = ("",) * len(VIEWS)
    typing: bool = False
    focus: str = ""
    zoomed: bool = False
    stopping: bool = False
    paused_unix_s: float | None = None
    paused_words: str = ""
    at: int | None = None
    theme: str = THEMES[0]
    chart: ChartState = field(default_factory=ChartState)
    ranks: RanksState = field(default_factory=RanksState)
    events: EventsState = field(default_factory=EventsState)
    asked: Asked = ""

    @property
    def is_choosing(self) -> bool:
        """Whether tags are being chosen, so that letters are typed."""
        picker = {"charts": self.chart.picker, "ranks": self.ranks.picker}.get(self.view)
        return picker is not None and not self.help

    @property
    def is_filtered(self) -> bool:
        """Whether the view has the line for a filter above it."""
        return self.view in _FILTERED and (self.typing or bool(self.filter))

    @property
    def filter(self) -> str:
        """What the view's lists are filtered by."""
        return self.filters[VIEWS.index(self.view)]

    def filtered_by(self, text: str) -> ViewState:
        """The same with another filter of the view."""
        place = VIEWS.index(self.view)
        filters = (*self.filters[:place], text[:MAX_TEXT], *self.filters[place + 1 :])
        return replace(self, filters=filters)

    def answered(self) -> ViewState:
        """After the app has done what was asked."""
        return replace(self, asked="")


class Context(NamedTuple):
    """What keys need to know. ``now_unix_s``: the time of the key, ``now_words``: as on a clock on
    the wall. ``panels``: of the overview, in their order. ``chart``: of
    :func:`unilab_sidecar.views.charts.context`. ``usual_tags``: what charts begin with. ``ranks``:
    of :func:`unilab_sidecar.views.ranks.context`, where that view is shown, ``events`` likewise.
    ``place``: the moment that is shown, among all of the run. ``is_replay``: somebody may choose
    how fast it goes. ``may_stop``: and stop the training. ``is_read``: what is asked has been on
    the screen for long enough."""

    now_unix_s: float = 0.0
    now_words: str = ""
    panels: tuple[str, ...] = ()
    chart: ChartContext = ChartContext()
    usual_tags: tuple[str, ...] = ()
    ranks: RanksContext = RanksContext()
    events: EventsContext = EventsContext()
    place: Place = Place()
    is_replay: bool = False
    may_stop: bool = False
    is_read: bool = True


def press(state: ViewState, key: str, context: Context, character: str | None = None) -> ViewState:
    """The state after a key. ``key``: Textual's name; ``character``: what it types, if it does."""
    if character is None:
        character = " " if key == "space" else key if len(key) == 1 else None
    if key in _ALWAYS:
        return replace(state, asked=_ALWAYS[key])
    if state.stopping:
        # Whatever else is pressed means no.
        yes = "stop" if context.is_read else "unread"
        return replace(state, stopping=False, asked=yes if character == "y" else "")
    if state.palette is not None:
        return _in_palette(state, state.palette, key, character, context)
    if state.typing:
        return _typed(state, key, character)
    changed = None if state.is_choosing else _anywhere(state, key, character, context)
    return changed or _in_view(state, key, character, context)


def _anywhere(
    state: ViewState, key: str, character: str | None, context: Context
) -> ViewState | None:
    """Keys that mean the same in every view; ``None`` for another one."""
    changed: ViewState | None = None
    if state.help and character in ("?", "q"):
        changed = replace(state, help=False)
    elif character == "?":
        changed = replace(state, help=True)
    elif character in _ASKED:
        changed = replace(state, asked=_ASKED[character])
    elif character == "K" and context.may_stop:
        changed = replace(state, stopping=True, help=False)
    elif character == "K":
        changed = replace(state, asked="explain")
    elif character in _PACE and context.is_replay:
        changed = replace(state, asked=_PACE[character])
    elif key == "ctrl+p" or character == ":":
        changed = replace(state, palette=Palette(), help=False)
    elif character is not None and character in "12345":
        changed = _gone_to(state, VIEWS[int(character) - 1], context)
    elif character == " ":
        is_live = state.paused_unix_s is None
        since = context.now_unix_s if is_live else None
        words = context.now_words if is_live else ""
        changed = replace(state, paused_unix_s=since, paused_words=words, at=None)
    elif character == "t":
        place = THEMES.index(state.theme) if state.theme in THEMES else -1
        changed = replace(state, theme=THEMES[(place + 1) % len(THEMES)])
    elif character == "/" and state.view in _FILTERED:
        changed = replace(state, typing=True, help=False)
    return changed


def _gone_to(state: ViewState, view: View, context: Context) -> ViewState:
    chart = state.chart
    if view == "charts" and view != state.view and not chart.tags:
        chart = replace(chart, tags=context.usual_tags)
    return replace(state, view=view, help=False, chart=chart)


def _in_view(state: ViewState, key: str, character: str | None, context: Context) -> ViewState:
    if state.help:
        return replace(state, help=False) if key in ("escape", "enter") else state
    if state.view == "charts":
        return _in_charts(state, key, character, context)
    is_scrubbing = state.paused_unix_s is not None
    if state.view == "events" and not (is_scrubbing and key.endswith(("left", "right"))):
        events = event_state.press(state.events, key, context.events)
        if events is not state.events:
            return replace(state, events=events)
    elif is_scrubbing and (at := moved(context.place, key)) is not None:
        return replace(state, at=at)
    if state.view == "ranks":
        ranks = rank_state.press(state.ranks, key, context.ranks, character)
        return state if ranks is state.ranks else replace(state, ranks=ranks)
    if state.view == "overview" and (changed := _in_overview(state, key, context)) is not None:
        return changed
    return state.filtered_by("") if key == "escape" and state.filter else state


def _in_charts(state: ViewState, key: str, character: str | None, context: Context) -> ViewState:
    chart = chart_state.press(state.chart, key, context.chart, character)
    return state if chart is state.chart else replace(state, chart=chart)


def _in_overview(state: ViewState, key: str, context: Context) -> ViewState | None:
    """Tab goes from panel to panel, Enter gives one the screen, Esc goes back. While the display
    stands still, arrows and pages go through the run."""
    if state.paused_unix_s is not None and (at := moved(context.place, key)) is not None:
        return replace(state, at=at)
    panels = context.panels
    place = panels.index(state.focus) if state.focus in panels else -1
    if key in ("tab", "shift+tab") and panels:
        step = 1 if key == "tab" else -1
        at = (place + step) % len(panels) if place >= 0 else (0 if step > 0 else -1)
        return replace(state, focus=panels[at])
    if key == "enter" and place >= 0:
        return replace(state, zoomed=not state.zoomed)
    if key == "escape" and state.zoomed:
        return replace(state, zoomed=False)
    is_back = key == "escape" and state.focus and not state.filter
    return replace(state, focus="") if is_back else None


def edited(text: str, key: str, character: str | None) -> str:
    """A line of text after a key."""
    if key in ("backspace", "ctrl+h"):
        return text[:-1]
    if key == "ctrl+u":
        return ""
    if key == "ctrl+w":
        return text.rstrip().rpartition(" ")[0]
    is_typed = character is not None and character.isprintable()
    return (text + (character or ""))[:MAX_TEXT] if is_typed else text


def _typed(state: ViewState, key: str, character: str | None) -> ViewState:
    if key in ("enter", "tab", "down"):
        return replace(state, typing=False)
    if key == "escape":
        return replace(state, typing=False).filtered_by("")
    text = edited(state.filter, key, character)
    return state if text == state.filter else state.filtered_by(text)


def _in_palette(
    state: ViewState, palette: Palette, key: str, character: str | None, context: Context
) -> ViewState:
    found = matching(palette, state.view)
    at = min(palette.at, max(len(found) - 1, 0))
    if key in ("escape", "ctrl+p"):
        return replace(state, palette=None)
    if key == "enter":
        closed = replace(state, palette=None)
        if not found:
            return closed
        one = found[at]
        return press(closed, one.key, context, one.character)
    if key in ("down", "up", "tab", "shift+tab"):
        step = 1 if key in ("down", "tab") else -1
        return replace(state, palette=Palette(palette.text, (at + step) % max(len(found), 1)))
    text = edited(palette.text, key, character)
    return state if text == palette.text else replace(state, palette=Palette(text))
