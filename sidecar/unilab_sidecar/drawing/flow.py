"""Text over as many lines as it needs: what must be readable is never cut off. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from unilab_sidecar.drawing.text import Block, Line, Segment, cut, line, line_width, width_of

_GAP = "  "


def wrapped(text: str, width: int) -> list[str]:
    """``text`` in lines of at most ``width`` cells, broken at blanks; words that are longer than
    a line behind a slash, else anywhere. At least one line; a ``width`` below 1 counts as 1."""
    width = max(width, 1)
    rows: list[str] = []
    while width_of(text) > width:
        head = cut(text, width) or text[0]
        end = _blank(text, len(head), width) or head.rfind("/") + 1 or len(head)
        rows.append(text[:end].rstrip(" "))
        text = text[end:].lstrip(" ")
    return [*rows, text] if text or not rows else rows


def _blank(text: str, end: int, width: int) -> int:
    """The last blank up to ``end`` whose word fits on a line of its own, 0 if there is none."""
    start = text.rfind(" ", 0, end + 1)
    word = text[start + 1 :].partition(" ")[0]
    return start if start > 0 and width_of(word) <= width else 0


def flowed(label: Segment | None, parts: Sequence[Segment], width: int) -> Block:
    """``parts`` two blanks apart behind ``label``, each whole on one line where it fits there;
    further lines begin below the first part."""
    indent = width_of(label.text) if label is not None else 0
    room = max(width - indent, 1)
    rows: list[list[Segment]] = [[]]
    for part in parts:
        taken = line_width(rows[-1])
        if taken and taken + len(_GAP) + width_of(part.text) <= room:
            rows[-1] += [Segment(_GAP), part]
            continue
        pieces = [[Segment(text, part.style)] for text in wrapped(part.text, room)]
        rows = [*rows[:-1], *([rows[-1]] if taken else []), *pieces]
    first: Line = line(*([label] if label is not None else []), *rows[0])
    blank = Segment(" " * indent)
    return [first, *(line(blank, *row) for row in rows[1:])]


def spaced(parts: Iterable[Segment]) -> list[Segment]:
    """``parts`` on one line, each two blanks behind what stands before it."""
    return [piece for part in parts for piece in (Segment(_GAP), part)]
