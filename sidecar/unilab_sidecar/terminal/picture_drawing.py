"""A terminal's picture that looks the same everywhere: bars, dots and frames as shapes. Pure.

Textual writes every cell as text and names a font from the network. A README's ``<img>`` may load
none, and a viewer's own font has gaps between blocks, dots of another width, and other rules. So
what is drawn becomes shapes here, and only words stay text, in whatever monospace font is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape, unescape

from unilab_sidecar.drawing.text import width_of

FONTS = (
    "ui-monospace, 'SFMono-Regular', 'Cascadia Mono', Menlo, Consolas, 'DejaVu Sans Mono', "
    "'Liberation Mono', 'Noto Sans Mono CJK SC', monospace"
)
_TEXT = re.compile(
    r'<text class="([\w-]+)" x="([\d.]+)" y="([\d.]+)" textLength="[\d.]+" '
    r'clip-path="([^"]+)">(.*?)</text>',
    re.DOTALL,
)
_COLOUR = re.compile(r"\.([\w-]+) \{ fill: (#[0-9a-fA-F]{3,8})")
_FONT_FACE = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
_FAMILY = re.compile(r"font-family: Fira Code, monospace;")
_BLANK = chr(0xA0)

_WIDE, _HIGH, _ABOVE_BASE = 12.2, 24.4, 18.5
"""A cell of Rich's pictures, and how far a line's base is below its top."""
_LEVELS = {glyph: eighths for eighths, glyph in enumerate("▁▂▃▄▅▆▇█", start=1)}
_PARTS = {glyph: eighths for eighths, glyph in enumerate("▏▎▍▌▋▊▉", start=1)}
_ARMS = {
    "─": "lr", "━": "lr", "│": "ud", "┤": "lud", "├": "rud", "┴": "lru", "└": "ur",
}  # fmt: skip
_BENDS = {"╭": (1, 1), "╮": (-1, 1), "╰": (1, -1), "╯": (-1, -1)}
_HALF = "╸"
_DASHES = {"╌": 2, "┄": 3}
_BRAILLE = range(0x2801, 0x2900)
_DOTS = tuple((column, row) for column in (0, 1) for row in (0, 1, 2))
"""Of the braille bits 0 to 5; 6 and 7 are the lowest row."""
_THIN, _THICK, _DOT = 1.5, 3.4, 3.8


def drawn(svg: str) -> str:
    """The picture that Textual has exported, without anything from the network. What is no such
    picture comes back as it is, but for its fonts."""
    colours = dict(_COLOUR.findall(svg))
    svg = _FAMILY.sub(f"font-family: {FONTS};", _FONT_FACE.sub("", svg))
    return _TEXT.sub(lambda found: _shapes(found, colours), svg)


def _shapes(found: re.Match[str], colours: dict[str, str]) -> str:
    name, left, base, clip, escaped = found.groups()
    text = unescape(escaped).rstrip("\n")
    x, y = float(left), float(base)
    top = y - _ABOVE_BASE
    fills: list[str] = []
    strokes: dict[float, list[str]] = {}
    made: list[str] = []
    for first, run in _runs(text):
        at = x + first * _WIDE
        if not _is_shape(run[0]):
            made.append(
                f'<text class="{name}" x="{_short(at)}" y="{base}" '
                f'textLength="{_short(width_of(run) * _WIDE)}" clip-path="{clip}">'
                f"{escape(run, quote=False).replace(' ', _BLANK)}</text>"
            )
        elif run[0] in _LEVELS:
            high = _HIGH * _LEVELS[run[0]] / 8
            fills.append(_box(at, top + _HIGH - high, len(run) * _WIDE, high))
        elif run[0] in _PARTS:
            for place in range(len(run)):
                wide = _WIDE * _PARTS[run[0]] / 8
                fills.append(_box(at + place * _WIDE, top, wide, _HIGH))
        else:
            for thickness, path in _strokes(run, at, top):
                strokes.setdefault(thickness, []).append(path)
    if fills:
        made.append(f'<path class="{name}" shape-rendering="crispEdges" d="{"".join(fills)}"/>')
    colour = colours.get(name, "#808080")
    for thickness, paths in strokes.items():
        caps = ' stroke-linecap="round"' if thickness == _DOT else ""
        made.append(
            f'<path fill="none" stroke="{colour}" stroke-width="{thickness}"{caps} '
            f'd="{"".join(paths)}"/>'
        )
    return "".join(made)


def _runs(text: str) -> Iterator[tuple[int, str]]:
    """Cells and what stands there: a run of one shape, or words up to two blanks, a shape or a
    character that is not one cell wide."""
    cell, start, run = 0, 0, ""
    for character in text.replace(_BLANK, " "):
        wide = width_of(character)
        if run and not _goes_on(run, character, wide):
            yield from _trimmed(start, run)
            run = ""
        if not run:
            start = cell
        run += character
        cell += wide
    yield from _trimmed(start, run)


def _goes_on(run: str, character: str, wide: int) -> bool:
    if wide == 0:
        return True
    if _is_shape(character) or _is_shape(run[0]):
        return character == run[-1] and character != _HALF and ord(character) not in _BRAILLE
    if run.endswith("  ") and character != " ":
        return False
    return wide == 1 and width_of(run[-1]) < 2


def _trimmed(start: int, run: str) -> Iterator[tuple[int, str]]:
    words = run.strip(" ")
    if words:
        yield start + len(run) - len(run.lstrip(" ")), words


def _is_shape(character: str) -> bool:
    return (
        character in _LEVELS
        or character in _PARTS
        or character in _ARMS
        or character in _BENDS
        or character in _DASHES
        or character == _HALF
        or ord(character) in _BRAILLE
    )


def _box(x: float, y: float, wide: float, high: float) -> str:
    return f"M{_short(x)} {_short(y)}h{_short(wide)}v{_short(high)}h{_short(-wide)}z"


def _strokes(run: str, x: float, top: float) -> Iterator[tuple[float, str]]:
    glyph, count = run[0], len(run)
    if ord(glyph) in _BRAILLE:
        yield _DOT, "".join(_dots(ord(glyph) - 0x2800, x, top))
        return
    middle = _short(top + _HIGH / 2)
    if glyph in "─━":
        thickness = _THIN if glyph == "─" else _THICK
        yield thickness, f"M{_short(x)} {middle}h{_short(count * _WIDE)}"
        return
    if glyph == _HALF:
        yield _THICK, f"M{_short(x)} {middle}h{_short(_WIDE / 2)}"
        return
    if glyph in _DASHES:
        dash = _WIDE / _DASHES[glyph]
        for place in range(count * _DASHES[glyph]):
            yield _THIN, f"M{_short(x + (place + 0.2) * dash)} {middle}h{_short(0.6 * dash)}"
        return
    for place in range(count):
        yield _THIN, _corner(glyph, x + place * _WIDE, top)


def _corner(glyph: str, x: float, top: float) -> str:
    across, down = x + _WIDE / 2, top + _HIGH / 2
    if glyph in _BENDS:
        to_right, to_bottom = _BENDS[glyph]
        start = f"M{_short(across)} {_short(down + to_bottom * _HIGH / 2)}"
        curve = f"Q{_short(across)} {_short(down)} {_short(across + to_right * _WIDE / 2)}"
        return f"{start}{curve} {_short(down)}"
    ends = {
        "l": f"h{_short(-_WIDE / 2)}",
        "r": f"h{_short(_WIDE / 2)}",
        "u": f"v{_short(-_HIGH / 2)}",
        "d": f"v{_short(_HIGH / 2)}",
    }
    return "".join(f"M{_short(across)} {_short(down)}{ends[arm]}" for arm in _ARMS[glyph])


def _dots(bits: int, x: float, top: float) -> Iterator[str]:
    for bit in range(8):
        if bits >> bit & 1:
            column, row = _DOTS[bit] if bit < 6 else (bit - 6, 3)
            across = x + (2 * column + 1) * _WIDE / 4
            yield f"M{_short(across)} {_short(top + (2 * row + 1) * _HIGH / 8)}h0"


def _short(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")
