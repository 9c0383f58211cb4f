"""What is on the screen: a picture, what somebody looks at, and a size in; lines out. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from unilab_sidecar import formatting
from unilab_sidecar.chart_panes import ChartData
from unilab_sidecar.filtering import parse_filter
from unilab_sidecar.glyphs import ascii_screen
from unilab_sidecar.layout import FRAME_CELLS, Screen
from unilab_sidecar.overview_panels import counted, filtered, panels
from unilab_sidecar.panels.header import title
from unilab_sidecar.picture import Picture
from unilab_sidecar.rank_state import RanksContext
from unilab_sidecar.rank_table import RankTable
from unilab_sidecar.scrubbing import Place
from unilab_sidecar.text import Line, Segment, clean, clip, fit, line_width, width_of
from unilab_sidecar.viewing import VIEWS, Context, ViewState
from unilab_sidecar.views import bus, charts, events, overview, palette, ranks
from unilab_sidecar.views import help as keys

_WIDE_HINT_CELLS = 112
_NOWHERE = Place()
_SPARE_TITLE_CELLS = 12
"""What the run is called is worth less than that the picture stands still."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a screen is made of, beside what somebody has chosen. ``unicode``: whether the
    terminal can show more than ASCII. ``note``: what is to be said for a moment at the edge.
    ``place``: which moment of the run is shown, ``moment_unix_s``: when that was, if it is no news.
    ``pace``: of a replay, how fast it goes."""

    picture: Picture
    charts: ChartData
    ranks: RankTable
    now_unix_s: float = 0.0
    unicode: bool = True
    note: str = ""
    place: Place = _NOWHERE
    moment_unix_s: float | None = None
    pace: str = ""


def context(shown: Shown, state: ViewState, columns: int, rows: int, now_words: str) -> Context:
    """What keys need to know about the screen. ``now_words``: the time of day."""
    of_ranks = RanksContext()
    if state.view == "ranks":
        of_ranks = ranks.context(shown.ranks, shown.picture, state.ranks, columns, rows)
    return Context(
        now_unix_s=shown.now_unix_s,
        now_words=now_words,
        panels=panels(shown.picture),
        chart=charts.context(shown.charts, state.chart, columns, rows),
        usual_tags=charts.usual(shown.charts.known),
        ranks=of_ranks,
        place=shown.place,
        is_replay=bool(shown.pace),
    )


def screen(shown: Shown, state: ViewState, columns: int, rows: int) -> Screen:
    """Title, lines and hint. Never raises, whatever the size."""
    width = max(columns - FRAME_CELLS, 1)
    has_filter = state.is_filtered and not state.help and state.palette is None
    above = [_filter_line(shown, state, width)] if has_filter else []
    made = _view(shown, state, columns, max(rows - len(above), 0))
    lines = [*above, *made.lines]
    room = max(width - 2, 0)
    hint = _hint(shown, state, made.hint, room)
    made = Screen(_title(shown, state, made.title, room), hint, lines)
    return made if shown.unicode else ascii_screen(made)


def _view(shown: Shown, state: ViewState, columns: int, rows: int) -> Screen:
    picture = shown.picture
    if state.palette is not None:
        made = palette.view(state.palette, columns, rows)
    elif state.help:
        made = keys.view(state.view, columns)
    elif state.view == "charts":
        made = charts.view(shown.charts, state.chart, columns, rows, unicode=shown.unicode)
    elif state.view == "ranks":
        made = ranks.ranks(shown.ranks, picture, state.ranks, columns, rows)
    elif state.view == "events":
        made = events.view(picture, None, state, columns, rows)
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
    before: list[str] = [f"REPLAY {shown.pace}"] if shown.pace else []
    if state.paused_unix_s is not None:
        before.append(_paused(shown, state, state.paused_unix_s))
    if state.view != "overview" or state.help or state.palette is not None:
        before.append(name)
    head = " · ".join(text for text in before if text)
    rest = room - width_of(head) - 3 if head else room
    if head and rest < _SPARE_TITLE_CELLS:
        return fit(head, room)
    return " · ".join(text for text in (head, title(shown.picture, rest)) if text)


def _paused(shown: Shown, state: ViewState, paused_unix_s: float) -> str:
    moment_unix_s = paused_unix_s if shown.moment_unix_s is None else shown.moment_unix_s
    ago_s = max(shown.now_unix_s - moment_unix_s, 0.0)
    if shown.picture.iteration is None and state.at is not None:
        return "PAUSED before the first update"
    if shown.picture.iteration is None:
        return f"PAUSED {formatting.age(float(int(ago_s)))}, since {state.paused_words}"
    hours, minutes = divmod(int(ago_s // 60), 60)
    is_clock = ago_s >= 60 and hours < 100
    ago = f"{hours:02d}:{minutes:02d}" if is_clock else formatting.age(float(int(ago_s)))
    return f"PAUSED at iteration {shown.picture.iteration:,} ({ago} ago)"


def _hint(shown: Shown, state: ViewState, own: str, room: int) -> str:
    """The longest hint that fits."""
    if shown.note:
        return fit(shown.note, room)
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
        tail = "" if state.help or state.palette is not None else " · ? help · q close"
        keys = own.split(" · ")
        offers = [f"{' · '.join(keys[:count])}{tail}" for count in range(len(keys), 0, -1)]
    else:
        tabs = " ".join(
            f"{number} {name.upper() if name == state.view else name}"
            for number, name in enumerate(VIEWS, start=1)
        )
        offers = [
            f"{tabs} · / filter · : commands · ? help · q close",
            f"{tabs} · ? help · q close",
            "1 to 5 views · ? help · q close",
            "? help · q close",
        ]
    if live:
        offers = [f"{live} · {offer}" for offer in offers] + offers
    return next((offer for offer in offers if width_of(offer) <= room), "")
