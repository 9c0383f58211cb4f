"""The keys, for whoever has pressed ``?``. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from unilab_sidecar import chart_state, rank_state
from unilab_sidecar.layout import FRAME_CELLS, SYSTEM_FROM, Screen
from unilab_sidecar.panels.parts import heading
from unilab_sidecar.text import Block, Segment, beside, clip, left, line, width_of
from unilab_sidecar.viewing import THEMES, View

_KEY_CELLS = 14
_GAP = 3
Rows = Sequence[tuple[str, str]]

_EVERYWHERE: Rows = (
    ("1 to 5", "overview, charts, ranks, events, bus"),
    ("Space", "hold the display still; the training and this view go on"),
    ("[ ]", "of a replay: slower, faster; it stands still with the display"),
    ("/", "filter: words, !not, /regex/; Enter keeps it, Esc clears it"),
    ("s", "save what is shown, as SVG and as text"),
    ("t", f"next theme: {', '.join(THEMES)}"),
    (": or Ctrl+P", "all commands by name"),
    ("?", "this help"),
    ("Esc", "back"),
    ("Ctrl+Z", "put the view aside, fg brings it back"),
    ("q or Ctrl+C", "close the view; the training goes on"),
)
_MOVING: Rows = (
    ("↑ ↓ or k j", "a line"),
    ("PgUp PgDn", "a page"),
    ("Home End", "to the first and to the last line"),
)
_OVERVIEW: Rows = (
    ("Tab", "the next panel, Shift+Tab the one before"),
    ("Enter", "that panel alone, with all of its rows, and back"),
    ("Esc", "back to the whole"),
    ("← →", "while it stands still: a second of the run back and forth, Shift: a minute"),
    ("PgUp PgDn", "and a twentieth of the run; Home and End: its begin and its end"),
)
_WORDS: Rows = (
    ("Avg 2s (n=…)", "shown values are means over the updates of two seconds"),
    ("1.2 (40 s)", "no update of the last two seconds has it: its newest value and age"),
    ("●  ○  ✗", "live, silent, lost or gone"),
    ("◌  ✓", "awaited by a new aggregator, finished"),
    ("!", "something is wrong"),
    ("dropped", "values and frames that the run lacks"),
)
_CHARTS: Rows = tuple((key.keys, key.long) for key in chart_state.KEYS)
_RANKS: Rows = tuple((key.keys, key.long) for key in rank_state.KEYS)


def view(shown: View, columns: int) -> Screen:
    """The help, with the keys of the view that is shown first."""
    width = max(columns - FRAME_CELLS, 1)
    own: tuple[tuple[str, Rows], ...] = (
        ("Overview", _OVERVIEW),
        ("Charts", _CHARTS),
        ("Ranks", _RANKS),
    )
    own = tuple(sorted(own, key=lambda part: part[0].lower() != shown))
    if columns < SYSTEM_FROM:
        parts = (("In every view", _EVERYWHERE), *own, ("Scrolling", _MOVING),
                 ("What the words mean", _WORDS))  # fmt: skip
        lines = _parts(parts, width)
    else:
        widths = [(width - _GAP) // 2, width - _GAP - (width - _GAP) // 2]
        blocks = [
            _parts((("In every view", _EVERYWHERE), ("What the words mean", _WORDS)), widths[0]),
            _parts((*own, ("Scrolling", _MOVING)), widths[1]),
        ]
        lines = beside(blocks, widths, _GAP)
    return Screen("Help", "↑ ↓ scroll · Esc or q back", [clip(parts, width) for parts in lines])


def _parts(parts: Sequence[tuple[str, Rows]], width: int) -> Block:
    lines: Block = []
    for title, rows in parts:
        lines += [()] if lines else []
        lines.append(heading(title, width))
        lines += [row for keys, words in rows for row in _row(keys, words, width)]
    return lines


def _row(keys: str, words: str, width: int) -> Block:
    """The words go on below themselves where they do not fit."""
    lines: Block = []
    text, room = "", max(width - _KEY_CELLS - 2, 8)
    for word in [*words.split(" "), None]:
        if word is None or (text and width_of(text) + 1 + width_of(word) > room):
            label = "" if lines else keys
            lines.append(
                line(Segment(f"  {left(label, _KEY_CELLS)}", "value"), Segment(text, "label"))
            )
            text = word or ""
        else:
            text = f"{text} {word}" if text else word
    return lines
