"""What is on the screen: a picture, what somebody looks at, and a size in; lines out. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from unilab_sidecar.alerting.alerts import end_word, trouble_word
from unilab_sidecar.charting.panes import ChartData
from unilab_sidecar.drawing import formatting
from unilab_sidecar.drawing.glyphs import ascii_screen
from unilab_sidecar.drawing.layout import FRAME_CELLS, FRAME_ROWS, Screen
from unilab_sidecar.drawing.lines_on_demand import joined
from unilab_sidecar.drawing.text import Line, Segment, clean, clip, fit, line_width, width_of
from unilab_sidecar.events.console_lines import ConsoleText
from unilab_sidecar.events.event_state import EventsContext
from unilab_sidecar.groups.filtering import parse_filter
from unilab_sidecar.looking.scrubbing import Place
from unilab_sidecar.looking.viewing import VIEWS, Context, ViewState
from unilab_sidecar.panels.header import title
from unilab_sidecar.picture import Picture
from unilab_sidecar.ranks.state import RanksContext
from unilab_sidecar.ranks.table import RankTable
from unilab_sidecar.views import bus, charts, events, overview, palette, ranks, stopping
from unilab_sidecar.views import help as keys
from unilab_sidecar.views.overview_panels import counted, filtered, panels

_SHORT_HINTS = ("1 to 5 views · ? help · q close", "? help · q close")
_WIDE_HINT_CELLS = 112
_NOWHERE = Place()
_NO_CONSOLE = ConsoleText()
_SPARE_TITLE_CELLS = 12
"""What the run is called is worth less than that the picture stands still."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a screen is made of, beside what somebody has chosen. ``unicode``: whether the
    terminal can show more than ASCII. ``note``: what is to be said for a moment at the edge; of
    several lines the first one that fits.
    ``place``: which moment of the run is shown, ``moment_unix_s``: when that was, if it is no news.
    ``pace``: of a replay, how fast it goes. ``console``: what the training has printed. ``top``: the
    first line that is seen of what is longer than the screen."""

    picture: Picture
    charts: ChartData
    ranks: RankTable
    now_unix_s: float = 0.0
    unicode: bool = True
    note: str = ""
    place: Place = _NOWHERE
    moment_unix_s: float | None = None
    pace: str = ""
    console: ConsoleText = _NO_CONSOLE
    top: int = 0


def context(shown: Shown, state: ViewState, columns: int, rows: int, now_words: str) -> Context:
    """What keys need to know about the screen. ``now_words``: the time of day."""
    of_ranks = RanksContext()
    if state.view == "ranks":
        of_ranks = ranks.context(shown.ranks, shown.picture, state.ranks, columns, rows)
    of_events = EventsContext()
    if state.view == "events":
        of_events = events.context(shown.picture, shown.console, state, columns, rows)
    return Context(
        now_unix_s=shown.now_unix_s,
        now_words=now_words,
        panels=panels(shown.picture),
        chart=charts.context(shown.charts, state.chart, columns, rows),
        usual_tags=charts.usual(shown.charts.known, reward_tag=shown.picture.run.reward_tag),
        ranks=of_ranks,
        events=of_events,
        place=shown.place,
        is_replay=bool(shown.pace),
    )


def screen(shown: Shown, state: ViewState, columns: int, rows: int) -> Screen:
    """Title, lines and hint. Never raises, whatever the size."""
    width = max(columns - FRAME_CELLS, 1)
    has_filter = state.is_filtered and not state.help and state.palette is None
    above = [_filter_line(shown, state, width)] if has_filter else []
    made = _view(shown, state, columns, max(rows - len(above), 0))
    lines = joined(above, made.lines)
    room = max(width - 2, 0)
    below = len(lines) - shown.top - max(rows - FRAME_ROWS, 0)
    hint = _hint(shown, state, made.hint, room, below)
    made = Screen(_title(shown, state, made.title, room), hint, lines)
    return made if shown.unicode else ascii_screen(made)


def _view(shown: Shown, state: ViewState, columns: int, rows: int) -> Screen:
    picture = shown.picture
    if state.stopping:
        made = stopping.view(picture, columns)
    elif state.palette is not None:
        made = palette.view(state.palette, state.view, columns, rows)
    elif state.help:
        made = keys.view(state.view, columns)
    elif state.view == "charts":
        made = charts.view(shown.charts, state.chart, columns, rows, unicode=shown.unicode)
    elif state.view == "ranks":
        made = ranks.ranks(shown.ranks, picture, state.ranks, columns, rows)
    elif state.view == "events":
        is_past = bool(shown.pace) or state.at is not None
        made = events.view(picture, shown.console, state, columns, rows, is_past=is_past)
    elif state.view == "bus":
        made = bus.view(picture, None, state, columns, rows)
    else:
        made = overview.view(picture, None, state, columns, rows)
    return made


def _filter_line(shown: Shown, state: ViewState, width: int) -> Line:
    """What is typed, how much passes, and what is wrong with it."""
    problem = parse_filter(state.filter).problem
    count = ""
    if state.view == "overview":
        whole = counted(shown.picture)
        count = f"{counted(filtered(shown.picture, state.filter)):,} of {whole:,} metrics"
    if problem:
        count = f"! {clean(problem)}"
    typed = clean(state.filter)
    room = max(width - width_of(count) - 12, 8)
    while width_of(typed) > room:
        typed = typed[1:]
    parts = [
        Segment("Filter ", "heading"),
        Segment(typed, "value"),
        Segment("▏" if state.typing else "", "accent"),
        Segment("" if typed else "  words, !not, /regex/", "dim"),
    ]
    gap = width - line_width(parts) - width_of(count)
    if gap > 0:
        parts += [Segment(" " * gap), Segment(count, "warn" if problem else "label")]
    return clip(parts, width)


def _title(shown: Shown, state: ViewState, name: str, room: int) -> str:
    before = _replayed(shown) if shown.pace else []
    if state.paused_unix_s is not None:
        before.append(_paused(shown, state, state.paused_unix_s))
    if state.view != "overview" or state.help or state.palette is not None:
        # What the overview says on its first line.
        before += [
            name,
            *_end_and_trouble(shown.picture, room - width_of(" · ".join([*before, name])) - 3),
        ]
    elif state.zoomed:
        before += _end_and_trouble(shown.picture, room)
    head = " · ".join(text for text in before if text)
    rest = room - width_of(head) - 3 if head else room
    if head and rest < _SPARE_TITLE_CELLS:
        return fit(head, room)
    is_other = state.help or state.stopping or state.palette is not None
    window = ranks.window(shown.ranks) if state.view == "ranks" and not is_other else None
    return " · ".join(text for text in (head, title(shown.picture, rest, window)) if text)


def _end_and_trouble(picture: Picture, room: int) -> list[str]:
    """What is still wrong with a run that is over, if there is room for that as well."""
    end, trouble = end_word(picture), trouble_word(picture)
    return [end] if end and width_of(f"{end} · {trouble}") > room else [end, trouble]


def _replayed(shown: Shown) -> list[str]:
    """How fast, and how far it has come, as of every film."""
    at, newest = shown.place.at, shown.place.newest
    return [f"REPLAY {shown.pace}", *([f"{100 * at // newest} %"] if newest else [])]


def _paused(shown: Shown, state: ViewState, paused_unix_s: float) -> str:
    moment_unix_s = paused_unix_s if shown.moment_unix_s is None else shown.moment_unix_s
    ago_s = max(shown.now_unix_s - moment_unix_s, 0.0)
    if shown.picture.iteration is None and state.at is not None:
        return "PAUSED before the first update"
    if shown.picture.iteration is None:
        return f"PAUSED {formatting.age(float(int(ago_s)))}, since {state.paused_words}"
    ago = formatting.long_ago(ago_s)
    return f"PAUSED at iteration {shown.picture.iteration:,} ({ago} ago)"


def _hint(shown: Shown, state: ViewState, own: str, room: int, below: int) -> str:
    """The longest hint that fits. ``below``: lines that one has to scroll to."""
    if shown.note:
        notes = shown.note.split("\n")
        return next((note for note in notes if width_of(note) <= room), fit(notes[-1], room))
    live = "Space live" if state.paused_unix_s is not None else ""
    if live and state.view == "overview":
        steps = " · ← → 1 s · Shift 1 min · PgUp PgDn 5 % · Home End"
        live += steps if room > _WIDE_HINT_CELLS else " · ← → PgUp PgDn"
    if shown.pace:
        live = f"{live} · [ ] speed" if live else "Space pause · [ ] speed"
    if state.typing:
        offers = ["Enter keeps the filter · Esc clears it", "Enter · Esc"]
    elif state.is_choosing and state.palette is None:
        # The list says its keys itself, and digits are typed.
        offers = []
    elif own:
        is_elsewhere = state.help or state.stopping or state.palette is not None
        tail = "" if is_elsewhere else " · 1 to 5 views · ? help · q close"
        keys = own.split(" · ")
        offers = [f"{' · '.join(keys[:count])}{tail}" for count in range(len(keys), 0, -1)]
        offers += [] if is_elsewhere else _SHORT_HINTS
    else:
        tabs = " ".join(
            f"{number} {name.upper() if name == state.view else name}"
            for number, name in enumerate(VIEWS, start=1)
        )
        offers = [
            f"{tabs} · / filter · : commands · ? help · q close",
            f"{tabs} · ? help · q close",
            *_SHORT_HINTS,
        ]
    if live:
        offers = [f"{live} · {offer}" for offer in offers] + offers
    if below > 0:
        # The scroll bar says so too: it takes no keys' place.
        offers = [text for offer in offers for text in (f"↓ {below:,} more · {offer}", offer)]
    return next((offer for offer in offers if width_of(offer) <= room), "")
