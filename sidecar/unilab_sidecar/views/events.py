"""Key 4: what is wrong now, what has happened, newest first, and what the training prints. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from unilab_sidecar.alerting.alerts import alerts, how_many
from unilab_sidecar.drawing import formatting
from unilab_sidecar.drawing.flow import flowed, spaced
from unilab_sidecar.drawing.layout import FRAME_CELLS, FRAME_ROWS, Screen
from unilab_sidecar.drawing.text import (
    Block,
    Line,
    Segment,
    beside,
    clean,
    clip,
    left,
    line,
    right,
    width_of,
)
from unilab_sidecar.events import note_words
from unilab_sidecar.events.console_lines import ConsoleText, usual_width
from unilab_sidecar.events.console_panel import Size, console_pane, marked
from unilab_sidecar.events.event_state import KEYS, EventsContext, focused
from unilab_sidecar.events.milestones import with_milestones
from unilab_sidecar.groups.filtering import parse_filter
from unilab_sidecar.looking.key_help import edge_hint
from unilab_sidecar.looking.viewing import ViewState
from unilab_sidecar.panels.header import REFERENCES
from unilab_sidecar.panels.parts import heading
from unilab_sidecar.picture import Note, Picture

BESIDE_FROM = 120
"""Columns of a terminal on which the console stands beside the events."""
_DIVIDED_FROM = 14
_LEAST_ROWS = 5
_AIRY_FROM = 30
"""Lines of a screen that has room for blank ones."""
_GAP = 3
_HINT_TAIL = 22
_NOTHING = Size(1, 1)
_AGE_CELLS = 8
_ITERATION_CELLS = 9
_RANK_CELLS = 8
_TABLE_CELLS = 80
_READABLE_FROM, _ALIGNED_FROM = 26, 60
_ALIGNED_CELLS = 29
"""In front of an event's text."""
_LEAST_CELLS = 40
"""Of events beside a console."""
_STEP_CELLS = 8
_SHOWN_RANKS = 2


def view(
    picture: Picture,
    console: ConsoleText,
    state: ViewState,
    columns: int,
    rows: int,
    *,
    is_past: bool = False,
) -> Screen:
    """Alerts and events, and the console beside them or below; a filter is applied to both.
    ``is_past``: what is shown is no news. Never raises, whatever the size."""
    page = _page(picture, console, state, columns, rows)
    focus = focused(state.events, has_console=console.is_kept)
    blocks: list[Block] = []
    if page.events_size is not None:
        is_marked = focus == "events" and page.is_divided
        blocks.append(_visible_events(page, state.events.first, is_marked=is_marked))
    if page.console_size is not None:
        size = page.console_size
        is_marked = focus == "console" and page.is_divided
        blocks.append(console_pane(console, state, size, is_past=is_past, is_marked=is_marked))
    if page.is_beside:
        sizes = (page.events_size or _NOTHING, page.console_size or _NOTHING)
        lines = beside(blocks, [size.width for size in sizes], _GAP)
    else:
        lines = [one for n, block in enumerate(blocks) for one in ([()] if n else []) + block]
    width, room = max(columns - FRAME_CELLS, 1), max(rows - FRAME_ROWS, 1)
    hint = edge_hint(KEYS, max(width - _HINT_TAIL, 0)) if console.is_kept else ""
    title = "Events" if page.console_size is None else "Events and console"
    return Screen(title, hint, [clip(parts, width) for parts in lines[:room]])


def context(
    picture: Picture, console: ConsoleText, state: ViewState, columns: int, rows: int
) -> EventsContext:
    """What ``press`` needs to know about this screen."""
    page = _page(picture, console, state, columns, rows)
    return EventsContext(
        console.numbers(state.filter),
        console.begin,
        console.end,
        max((page.console_size or _NOTHING).height - 1, 1),
        len(page.events),
        (page.events_size or _NOTHING).height,
        console.is_kept,
    )


class _Page(NamedTuple):
    """``events``: all lines. The sizes are those of the panes, ``None`` for one that is not shown.
    ``is_divided``: keys are for one of two panes."""

    events: Block
    events_size: Size | None
    console_size: Size | None
    is_beside: bool = False
    is_divided: bool = False


def _page(
    picture: Picture, console: ConsoleText, state: ViewState, columns: int, rows: int
) -> _Page:
    width, room = max(columns - FRAME_CELLS, 1), max(rows - FRAME_ROWS, 1)
    focus = focused(state.events, has_console=console.is_kept)
    if not console.is_kept:
        lines = _events(picture, state, width, room)
        taken = len(console_pane(console, state, Size(width, room)))
        height = room - taken - 1
        if height < _LEAST_ROWS:
            return _Page(lines, Size(width, room), None)
        return _Page(lines, Size(width, height), Size(width, taken))
    if state.events.zoomed or room < _DIVIDED_FROM:
        lines = _events(picture, state, width, room)
        whole = Size(width, room)
        is_events = focus == "events"
        return _Page(lines, whole if is_events else None, None if is_events else whole)
    if columns >= BESIDE_FROM:
        part = _events_cells(picture, console, width)
        sizes = Size(part, room), Size(width - part - _GAP, room)
        return _Page(_events(picture, state, part, room), *sizes, is_beside=True, is_divided=True)
    lines = _events(picture, state, width, room)
    height = min(len(lines), max(room * 2 // 5, _LEAST_ROWS))
    sizes = Size(width, height), Size(width, room - height - 1)
    return _Page(lines, *sizes, is_divided=True)


def _events_cells(picture: Picture, console: ConsoleText, width: int) -> int:
    """How much of ``width`` is the events': what the console leaves of it, because its lines are
    cut and theirs are not, but no less than can be read and no more than they need. In steps, so
    that a line more or less moves nothing."""
    printed = -(-usual_width(console) // _STEP_CELLS) * _STEP_CELLS
    needed = max(
        (_ALIGNED_CELLS + width_of(clean(n.text)) for n in with_milestones(picture)), default=0
    )
    needed = -(-min(needed, width) // _STEP_CELLS) * _STEP_CELLS
    most = max(min(needed, width * 3 // 5), _LEAST_CELLS)
    return min(max(width - _GAP - printed, _LEAST_CELLS), most)


def _visible_events(page: _Page, first: int, *, is_marked: bool) -> Block:
    size = page.events_size or _NOTHING
    first = min(first, max(len(page.events) - size.height, 0))
    shown = page.events[first : first + size.height]
    below = len(page.events) - first - len(shown)
    if below and len(shown) > 1:
        shown[-1] = line(Segment(f"↓ {below + 1:,} more lines", "dim"))
    return marked(shown) if is_marked else shown


def _events(picture: Picture, state: ViewState, width: int, room: int) -> Block:
    """``room``: rows of the screen, for a blank one between them where there are many."""
    wanted = parse_filter(state.filter)
    lines = _wrong(picture, width)
    lines += [()] if room >= _AIRY_FROM else []
    happened = with_milestones(picture)
    notes = [note for note in reversed(happened) if wanted.passes(_words(note))]
    reference = "" if picture.note_reference == "now" else REFERENCES[picture.note_reference]
    note = f"{len(notes):,}{', ages ' * bool(reference)}{reference}" if notes else ""
    lines.append(heading("Events", width, note=note))
    if notes and width >= _READABLE_FROM:
        lines.append(_titles(width))
    for note in notes:
        lines += _event(note, width)
    if not happened:
        lines.append(line(Segment(_nothing(picture), "label")))
    elif not notes:
        lines.append(line(Segment("No event passes this filter: Esc clears it.", "label")))
    return [clip(parts, width) for parts in lines]


def _wrong(picture: Picture, width: int) -> Block:
    found = alerts(picture)
    if not found:
        return [heading("Alerts", width), line(Segment("✓ ", "good"), Segment("none", "label"))]
    lines: Block = [heading("Alerts", width, note=f"{how_many(found):,}")]
    for alert in found:
        lines += flowed(Segment(alert.mark, alert.style), [Segment(alert.text, alert.style)], width)
    return lines


def _titles(width: int) -> Line:
    """At every width at which an event can be read, of the columns that it has there."""
    titles = f"{right('age', _AGE_CELLS)}  {left('what', note_words.KIND_CELLS)}"
    if width >= _TABLE_CELLS:
        titles += f"{right('iteration', _ITERATION_CELLS)}  {left('ranks', _RANK_CELLS)}"
    return line(Segment(titles, "dim"))


def _event(note: Note, width: int) -> Block:
    kind = note_words.kind(note)
    text = note_words.text(note, kind, ranks_beside=width >= _TABLE_CELLS)
    ranks = note_words.ranks(note, _SHOWN_RANKS)
    style = note_words.table_style(note)
    age = Segment(f"{right(formatting.age(note.age_s), _AGE_CELLS)}  ", "dim")
    iteration = "" if note.iteration is None else f"{note.iteration:,}"
    beside = iteration if not re.search(rf"\biteration {note.iteration}\b", text) else ""
    if width < _ALIGNED_FROM:
        # No room for a column of what happened: the text goes on behind it, or is all.
        is_said = note.kind == "status" and bool(text)
        parts = [] if is_said else [Segment(kind, "label" if style == "plain" else style)]
        parts += [Segment(text, style)] if text else []
        parts += [Segment(f"iter {beside}", "dim")] if beside else []
        parts += [Segment(ranks, "dim")] if ranks else []
        if width < _READABLE_FROM:
            return [line(age, *spaced(parts)[1:])]
        return flowed(age, parts, width)
    if width < _TABLE_CELLS:
        more = [Segment(f"iter {beside}", "dim")] if beside else []
        more += [Segment(ranks, "dim")] if ranks else []
        parts = [*([Segment(text, style)] if text else []), *more]
        label = Segment(
            left(kind, min(note_words.KIND_CELLS, max(width * 2 // 5, 8))) + " ", "label"
        )
        head = width_of(age.text) + width_of(label.text)
        if not parts:
            return [clip(line(age, label), width)]
        first, *rest = flowed(Segment(" " * head), parts, width)
        return [line(age, label, *first[1:]), *rest]
    fixed = line(
        age,
        Segment(left(kind, note_words.KIND_CELLS), "label" if style == "plain" else style),
        Segment(right(iteration, _ITERATION_CELLS), "value"),
        Segment(f"  {left(note_words.listed(note.ranks, _SHOWN_RANKS), _RANK_CELLS)}  ", "label"),
    )
    head = sum(width_of(part.text) for part in fixed)
    if not text:
        return [fixed]
    first, *rest = flowed(Segment(" " * head), [Segment(text, style)], width)
    return [line(*fixed, *first[1:]), *rest]


def _nothing(picture: Picture) -> str:
    # A viewer that came late has not seen the start.
    return "No event since this view began." if picture.attempt else "Nothing has happened yet."


def _words(note: Note) -> str:
    return f"{note_words.kind(note)} {note.text}"
