"""Every glyph that a terminal without Unicode cannot show, as one of ASCII. Pure.

One cell becomes one cell, so that nothing moves. Marks stay different from each other, because
they carry the state where there is no colour.
"""

from __future__ import annotations

from collections.abc import Mapping

from unilab_sidecar.layout import Screen
from unilab_sidecar.text import Block, Segment, width_of

_PAIRS = {
    "─━╌┄": "-=--",
    "│┤├┴└╭╮╯╰": "|++++++++",
    "●○◌◐■": "*o.%#",
    "✓✗": "vx",
    "→←↑↓↗↘": "><^v/\\",
    "▸◂▶◀▲▼": "><><^v",
    "…·×≤≥±µ": "~-x<>~u",
    "▁▂▃▄▅▆▇█": "_.:-=+*#",
    "▏▎▍▌▋▊▉": "|||====",
    "░▒▓": ".:#",
}
GLYPHS: Mapping[str, str] = {
    glyph: plain
    for glyphs, ascii_text in _PAIRS.items()
    for glyph, plain in zip(glyphs, ascii_text, strict=True)
}
_DOTS = " ..::**##"
"""For braille characters of 0 to 8 dots."""
_BRAILLE = range(0x2800, 0x2900)


def ascii_text(text: str) -> str:
    """The same cells in ASCII. What has no likeness, such as a letter of another script in a
    name, becomes a question mark per cell."""
    return text if text.isascii() else "".join(map(_ascii, text))


def ascii_lines(lines: Block) -> Block:
    """:func:`ascii_text` of every segment."""
    return [tuple(Segment(ascii_text(p.text), p.style) for p in parts) for parts in lines]


def ascii_screen(screen: Screen) -> Screen:
    """:func:`ascii_text` of everything on it."""
    return Screen(ascii_text(screen.title), ascii_text(screen.hint), ascii_lines(screen.lines))


def _ascii(character: str) -> str:
    if character.isascii():
        return character
    if (plain := GLYPHS.get(character)) is not None:
        return plain
    if ord(character) in _BRAILLE:
        return _DOTS[(ord(character) - 0x2800).bit_count()]
    return "?" * width_of(character)
