"""Every glyph that a terminal without Unicode cannot show, as one of ASCII. Pure.

One cell becomes one cell, so that nothing moves. Marks stay different from each other, because
they carry the state where there is no colour.
"""

from __future__ import annotations

from collections.abc import Mapping

from unilab_sidecar.drawing.layout import Screen
from unilab_sidecar.drawing.lines_on_demand import each
from unilab_sidecar.drawing.text import Lines, Segment, width_of

_PAIRS = {
    "─━╸╌┄": "-=---",
    "│┤├┴└╭╮╯╰": "|++++++++",
    "●○◌◐■": "*o.%#",
    "✓✗": "vx",
    "→←↑↓↗↘": "><^v/\\",
    "▸◂▶◀▲▼": "><><^v",
    "…·×≤≥±µ°": "~-x<>~u'",
    "▁▂▃▄▅▆▇█": "_.:-=+*#",
    "▏▎▍▌▋▊▉": "|||====",
    "░▒▓": ".:#",
}
GLYPHS: Mapping[str, str] = {
    glyph: plain
    for glyphs, ascii_text in _PAIRS.items()
    for glyph, plain in zip(glyphs, ascii_text, strict=True)
}
_ROWS = (0x09, 0x12, 0x24, 0xC0)
"""Of a braille character, from the top: which bits are its dots."""
_HEIGHTS = {0b0001: "'", 0b0011: "'", 0b1000: "_", 0b1100: "_", 0b0010: "-", 0b0100: "-", 0b0110: "-"}  # fmt: skip
_BRAILLE = range(0x2800, 0x2900)


def ascii_text(text: str) -> str:
    """The same cells in ASCII. What has no likeness, such as a letter of another script in a
    name, becomes a question mark per cell."""
    return text if text.isascii() else "".join(map(_ascii, text))


def ascii_lines(lines: Lines) -> Lines:
    """:func:`ascii_text` of every segment."""
    return each(lines, lambda parts: tuple(Segment(ascii_text(p.text), p.style) for p in parts))


def ascii_screen(screen: Screen) -> Screen:
    """:func:`ascii_text` of everything on it."""
    return Screen(ascii_text(screen.title), ascii_text(screen.hint), ascii_lines(screen.lines))


def _ascii(character: str) -> str:
    if character.isascii():
        return character
    if (plain := GLYPHS.get(character)) is not None:
        return plain
    if ord(character) in _BRAILLE:
        return _of_dots(ord(character) - 0x2800)
    return "?" * width_of(character)


def _of_dots(dots: int) -> str:
    """A line stays a line at its height; what is steep or full is a mark of its own."""
    if not dots:
        return " "
    if dots.bit_count() > 5:
        return "#"
    heights = sum(1 << place for place, bits in enumerate(_ROWS) if dots & bits)
    return _HEIGHTS.get(heights, "|")
