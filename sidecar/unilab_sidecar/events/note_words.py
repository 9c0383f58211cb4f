"""What an event is called, and its style, wherever events are listed. Pure."""

from __future__ import annotations

import re

from unilab_sidecar.drawing.text import Style, clean, width_of
from unilab_sidecar.picture import Note

KIND_CELLS = 18
"""Of the column of kinds; its last one is blank."""

_TABLE_STYLES: dict[str, Style] = {
    "warning": "warn",
    "lost": "bad",
    "alert": "bad",
    "checkpoint": "good",
    "completed": "good",
    "failed": "bad",
    "stopped": "warn",
    "alert_over": "good",
}


def kind(note: Note) -> str:
    """One or two words; of an alert with how bad it is, for whom colours say nothing. A kind of the
    training's own that is longer than the column is part of the text."""
    if note.severity:
        return f"{clean(note.kind)} ({note.severity})"
    if note.refused:
        return "refused"
    said = clean(note.kind).replace("_", " ")
    return said if 0 < width_of(said) < KIND_CELLS else "event"


def text(note: Note, kind_beside: str = "", *, ranks_beside: bool = False) -> str:
    """What is left to say of it beside its kind, with which most texts begin, and beside a column
    of its ranks."""
    said = clean(note.text)
    if ranks_beside and len(note.ranks) == 1:
        said = said.removeprefix(f"rank {note.ranks[0]}: ")
    if kind_beside == "event" != note.kind:
        return said if said.startswith(clean(note.kind)) else f"{clean(note.kind)}: {said}"
    if kind_beside and said.startswith(kind_beside):
        said = said[len(kind_beside) :].lstrip(" :")
    return said


def ranks(note: Note, most: int) -> str:
    """Whose it is, if that is news: ``rank 1``, ``ranks 0, 1, …``; empty where its text says so."""
    if note.ranks in ((), (0,)) or re.match(r"rank \d+\b", note.text):
        return ""
    return f"rank{'s' * (len(note.ranks) > 1)} {listed(note.ranks, most)}"


def listed(numbers: tuple[int, ...], most: int) -> str:
    """At most so many of them."""
    more = ", …" if len(numbers) > most else ""
    return ", ".join(map(str, numbers[:most])) + more


def table_style(note: Note) -> Style:
    """Where all events are listed, each in the colour of what it is."""
    return "warn" if note.severity == "warn" else _TABLE_STYLES.get(note.kind, "plain")


def news_style(note: Note) -> Style:
    """Beside other things: only what calls for somebody has a colour."""
    if note.severity:
        return table_style(note)
    return "warn" if note.kind in ("warning", "lost") else "plain"
