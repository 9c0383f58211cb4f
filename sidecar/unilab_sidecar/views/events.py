"""Key 4: what has happened, newest first, below what is wrong now. Pure."""

from __future__ import annotations

from unilab_sidecar import formatting
from unilab_sidecar.alerts import alerts
from unilab_sidecar.filtering import parse_filter
from unilab_sidecar.flow import flowed
from unilab_sidecar.layout import FRAME_CELLS, Screen
from unilab_sidecar.panels.header import REFERENCES
from unilab_sidecar.panels.parts import heading
from unilab_sidecar.picture import Note, Picture
from unilab_sidecar.text import (
    Block,
    Line,
    Segment,
    Style,
    clean,
    clip,
    left,
    line,
    right,
    width_of,
)
from unilab_sidecar.viewing import ViewState

_AGE_CELLS = 8
_KIND_CELLS = 18
_ITERATION_CELLS = 9
_RANK_CELLS = 8
_TABLE_CELLS = 80
_SHOWN_RANKS = 2
_STYLES: dict[str, Style] = {"warning": "warn", "lost": "bad", "checkpoint": "good"}


def view(picture: Picture, _data: None, state: ViewState, columns: int, _rows: int) -> Screen:
    """Alerts on top, then every event that is kept; a filter is applied to kind and text."""
    width = max(columns - FRAME_CELLS, 1)
    wanted = parse_filter(state.filter)
    lines = _wrong(picture, width)
    lines += [()] if lines else []
    notes = [note for note in reversed(picture.notes) if wanted.passes(_words(note))]
    reference = "" if picture.note_reference == "now" else REFERENCES[picture.note_reference]
    note = f"{len(notes):,}{', ages ' * bool(reference)}{reference}" if notes else ""
    lines.append(heading("Events", width, note=note))
    if width >= _TABLE_CELLS and notes:
        lines.append(_titles())
    for note in notes:
        lines += _event(note, width)
    if not picture.notes:
        lines.append(line(Segment("Nothing has happened yet.", "label")))
    elif not notes:
        lines.append(line(Segment("No event passes this filter: Esc clears it.", "label")))
    return Screen("Events", "", [clip(parts, width) for parts in lines])


def _wrong(picture: Picture, width: int) -> Block:
    found = alerts(picture)
    if not found:
        return [heading("Alerts", width), line(Segment("✓ ", "good"), Segment("none", "label"))]
    lines: Block = [heading("Alerts", width, note=f"{len(found):,}")]
    for alert in found:
        lines += flowed(Segment("! ", alert.style), [Segment(alert.text, alert.style)], width)
    return lines


def _titles() -> Line:
    titles = (
        f"{right('age', _AGE_CELLS)}  {left('what', _KIND_CELLS)}"
        f"{right('iteration', _ITERATION_CELLS)}  {left('ranks', _RANK_CELLS)}"
    )
    return line(Segment(titles, "dim"))


def _event(note: Note, width: int) -> Block:
    kind, text = _kind(note), clean(note.text)
    if text.startswith(kind):
        text = text[len(kind) :].lstrip(" :")
    style = _STYLES.get(note.kind, "plain")
    age = Segment(f"{right(formatting.age(note.age_s), _AGE_CELLS)}  ", "dim")
    iteration = "" if note.iteration is None else f"{note.iteration:,}"
    if width < _TABLE_CELLS:
        more = [Segment(f"iter {iteration}", "dim")] if iteration else []
        more += [Segment(f"rank {_ranks(note)}", "dim")] if note.ranks not in ((), (0,)) else []
        parts = [*([Segment(text, style)] if text else []), *more]
        label = Segment(left(kind, min(_KIND_CELLS, max(width // 4, 8))) + " ", "label")
        head = width_of(age.text) + width_of(label.text)
        if not parts or width < head + 16:
            return [clip(line(age, label, *parts), width)]
        first, *rest = flowed(Segment(" " * head), parts, width)
        return [line(age, label, *first[1:]), *rest]
    fixed = line(
        age,
        Segment(left(kind, _KIND_CELLS), "label" if style == "plain" else style),
        Segment(right(iteration, _ITERATION_CELLS), "value"),
        Segment(f"  {left(_ranks(note), _RANK_CELLS)}  ", "label"),
    )
    head = sum(width_of(part.text) for part in fixed)
    if not text:
        return [fixed]
    first, *rest = flowed(Segment(" " * head), [Segment(text, style)], width)
    return [line(*fixed, *first[1:]), *rest]


def _ranks(note: Note) -> str:
    more = ", …" if len(note.ranks) > _SHOWN_RANKS else ""
    return ", ".join(map(str, note.ranks[:_SHOWN_RANKS])) + more


def _kind(note: Note) -> str:
    return "refused" if note.refused else clean(note.kind).replace("_", " ")


def _words(note: Note) -> str:
    return f"{_kind(note)} {note.text}"
