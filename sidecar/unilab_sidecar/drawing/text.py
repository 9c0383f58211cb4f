"""Lines of styled text measured in terminal cells. Pure.

A line is a tuple of segments, each with a semantic style name that the widgets map to the
theme; the text alone must say everything, because a terminal may have no colours.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from rich.cells import cell_len

Style = Literal[
    "plain", "dim", "label", "value", "heading", "accent", "good", "warn", "bad",
    "series1", "series2", "series3", "series4", "series5", "series6", "focus",
]  # fmt: skip


class Segment(NamedTuple):
    """A run of text in one style."""

    text: str
    style: Style = "plain"


Line = tuple[Segment, ...]
Block = list[Line]
Lines = Sequence[Line]
"""A block, or lines that are drawn when they are looked at (``lines_on_demand``)."""

ELLIPSIS = "…"
_DIRECTION_CONTROLS = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)


def clean(text: str) -> str:
    """``text`` with every character that a terminal could act on written out as an escape.

    Names come from users: control bytes, line breaks, direction marks and lone surrogates
    must be readable and must not reach the terminal.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_literal(character) for character in text)


def _literal(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Cs":
        return "\ufffd"
    if category in ("Cc", "Zl", "Zp") or character in _DIRECTION_CONTROLS:
        return character.encode("unicode_escape").decode("ascii")
    return character


def width_of(text: str) -> int:
    """Terminal cells that ``text`` takes: 2 for CJK and emoji, 0 for combining marks."""
    return len(text) if text.isascii() else cell_len(text)


def fit(text: str, cells: int) -> str:
    """``text`` cut on a cell boundary to at most ``cells``, an ellipsis for what is missing."""
    if width_of(text) <= cells:
        return text
    if cells <= 0:
        return ""
    return cut(text, cells - 1) + ELLIPSIS


def cut(text: str, cells: int) -> str:
    """The longest prefix of ``text`` that takes at most ``cells``."""
    if text.isascii():
        return text[: max(cells, 0)]
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if cell_len(text[:middle]) <= cells:
            low = middle
        else:
            high = middle - 1
    return text[:low]


def left(text: str, cells: int) -> str:
    """``text`` in exactly ``cells``, at the left."""
    shown = fit(text, cells)
    return shown + " " * (cells - width_of(shown))


def right(text: str, cells: int) -> str:
    """``text`` in exactly ``cells``, at the right."""
    shown = fit(text, cells)
    return " " * (cells - width_of(shown)) + shown


def line(*segments: Segment | str) -> Line:
    """A line of segments; plain strings get the plain style, empty ones go."""
    made = (Segment(part) if isinstance(part, str) else part for part in segments)
    return tuple(part for part in made if part.text)


def line_width(parts: Iterable[Segment]) -> int:
    """Terminal cells that a line takes."""
    return sum(width_of(part.text) for part in parts)


def plain(parts: Iterable[Segment]) -> str:
    """A line's text without its styles."""
    return "".join(part.text for part in parts)


def clip(parts: Sequence[Segment], cells: int) -> Line:
    """The line cut to at most ``cells``, with an ellipsis where something is missing."""
    if line_width(parts) <= cells:
        return tuple(parts)
    kept: list[Segment] = []
    room = cells
    for part in parts:
        taken = width_of(part.text)
        if taken < room:
            kept.append(part)
            room -= taken
            continue
        # Something follows or this part is too long: the ellipsis needs the last cell.
        shortened = cut(part.text, room - 1) + ELLIPSIS if room > 0 else ""
        kept.append(Segment(shortened, part.style))
        break
    return tuple(part for part in kept if part.text)


def filled(parts: Sequence[Segment], cells: int) -> Line:
    """The line in exactly ``cells``."""
    shown = clip(parts, cells)
    missing = cells - line_width(shown)
    return (*shown, Segment(" " * missing)) if missing > 0 else shown


def merged(parts: Iterable[Segment]) -> Line:
    """The same line in fewer segments: no style draws anything on a blank, so blanks join the
    segment before them. Each segment costs a terminal some twenty bytes of escape codes."""
    kept: list[Segment] = []
    for part in parts:
        last = kept[-1] if kept else None
        if last is not None and (last.style == part.style or not part.text.strip(" ")):
            kept[-1] = Segment(last.text + part.text, last.style)
        elif last is not None and not last.text.strip(" "):
            kept[-1] = Segment(last.text + part.text, part.style)
        else:
            kept.append(part)
    return tuple(kept)


def beside(blocks: Sequence[Block], widths: Sequence[int], gap: int) -> Block:
    """Blocks as columns of ``widths`` with ``gap`` blank cells between them."""
    height = max((len(block) for block in blocks), default=0)
    return [row_of(blocks, widths, gap, index) for index in range(height)]


def row_of(blocks: Sequence[Lines], widths: Sequence[int], gap: int, index: int) -> Line:
    """The row ``index`` of blocks that stand beside each other."""
    parts: list[Segment] = []
    for column, (block, width) in enumerate(zip(blocks, widths, strict=True)):
        if column:
            parts.append(Segment(" " * gap))
        parts.extend(filled(block[index] if index < len(block) else (), width))
    return tuple(parts)
