"""The keys, for whoever has pressed ``?``. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from unilab_sidecar.charting import state as chart_state
from unilab_sidecar.drawing.layout import FRAME_CELLS, SYSTEM_FROM, Screen
from unilab_sidecar.drawing.text import Block, Segment, beside, clip, left, line, width_of
from unilab_sidecar.events import event_state
from unilab_sidecar.looking.view_names import THEMES, View
from unilab_sidecar.panels.parts import heading
from unilab_sidecar.ranks import state as rank_state

_KEY_CELLS = 15
_GAP = 3
Rows = Sequence[tuple[str, str]]
Part = tuple[str, Rows]

_EVERYWHERE: Rows = (
    ("1 to 5", "overview, charts, ranks, events, bus"),
    ("Space", "pause the display, or make it live again; the training goes on"),
    ("[ ]", "of a replay: slower, faster; a paused display pauses it too"),
    ("/", "filter: words, !not, /regex/; Enter keeps it, Esc clears it"),
    ("s", "save what is shown, as SVG and as text"),
    ("t", f"next theme: {', '.join(THEMES)}"),
    (": or Ctrl+P", "commands by name, those of the view first"),
    ("?", "this help"),
    ("Esc", "back"),
    ("Ctrl+Z", "put the view aside, fg brings it back"),
    ("K", "stop the training, after a question; with --allow-control only"),
    ("q or Ctrl+C", "close the view, as Ctrl+\\ does; the training goes on"),
)
_MOVING: Rows = (
    ("↑ ↓ or k j", "a line"),
    ("PgUp PgDn", "a page"),
    ("Home End", "to the first and to the last line"),
)
_OVERVIEW: Rows = (
    ("Tab", "the next panel, Shift+Tab the one before"),
    ("Enter", "the chosen panel alone, with all of its rows, and back"),
    ("Esc", "back to all panels"),
    ("← →", "while paused: a second of the run back and forth, Shift: a minute"),
    ("PgUp PgDn", "while paused: a twentieth of the run back and forth"),
    ("Home End", "while paused: to the beginning and to the end of the run"),
)
_WORDS: Rows = (
    (
        "Avg 2s (n=…)",
        "shown values are means over the updates of two seconds; of the ranks: each over its own",
    ),
    ("1.2 (40 s)", "no update of the last two seconds has it: its newest value and age"),
    ("●  ○  ✗", "live, silent, and failed, lost or gone"),
    ("◌  ✓  ■", "awaited by a new aggregator, finished, stopped by somebody"),
    ("!", "something is wrong"),
    ("dropped", "values and frames that the run lacks"),
    ("(last N)", "that many new values of the mean reward tell where it goes"),
    ("grey dots", "of a chart: from the lowest to the highest value of a stretch of the run"),
    ("grey course", "the value has not changed"),
    ("Steps/s", "mean of the rates of single iterations: a slow one among fast ones weighs little"),
    ("Rows/s", "rows that training takes out of the replay buffer a second"),
    ("Ingress", "the queue from the collectors to the replay buffer"),
    ("Work", "of a rank: its Iter Wall without the wait for other ranks' gradients"),
    ("DP Sync", "of a rank: that wait (data parallel gradient sync)"),
    ("log()", "how long a call of the logger holds the training up"),
)
_CHARTS: Rows = tuple((key.keys, key.long) for key in chart_state.KEYS)
_EVENTS: Rows = tuple((key.keys, key.long) for key in event_state.KEYS)
_RANKS: Rows = tuple((key.keys, key.long) for key in rank_state.KEYS)


def view(shown: View, columns: int) -> Screen:
    """The help, with the keys of the view that is shown first."""
    width = max(columns - FRAME_CELLS, 1)
    own: tuple[Part, ...] = (
        ("Overview", _OVERVIEW),
        ("Charts", _CHARTS),
        ("Ranks", _RANKS),
        ("Events", _EVENTS),
    )
    own = tuple(sorted(own, key=lambda part: part[0].lower() != shown))
    if columns < SYSTEM_FROM:
        parts = (("In every view", _EVERYWHERE), *own, ("Scrolling", _MOVING),
                 ("What the words mean", _WORDS))  # fmt: skip
        lines = _parts(parts, width)
    else:
        widths = [(width - _GAP) // 2, width - _GAP - (width - _GAP) // 2]
        rest = (*own, ("Scrolling", _MOVING), ("What the words mean", _WORDS))
        sides = _level((("In every view", _EVERYWHERE), *rest), widths[0])
        blocks = [_parts(side, cells) for side, cells in zip(sides, widths, strict=True)]
        lines = beside(blocks, widths, _GAP)
    return Screen("Help", "↑ ↓ scroll · Esc or q back", [clip(parts, width) for parts in lines])


def _level(parts: Sequence[Part], width: int) -> tuple[list[Part], list[Part]]:
    """Two columns as equal in height as they can be: the first part begins the first one, and each
    keeps the order. Of equal ones that which has the view's own keys, the second part, beside it."""
    heights = [len(_parts([part], width)) + 1 for part in parts]

    def unevenness(chosen: tuple[int, ...]) -> tuple[int, int]:
        here = sum(heights[place] for place in chosen)
        return max(here, sum(heights) - here), 1 in chosen

    places = range(1, len(parts))
    rests = (rest for count in range(len(parts)) for rest in combinations(places, count))
    first = min(((0, *rest) for rest in rests), key=unevenness)
    return (
        [parts[place] for place in first],
        [part for place, part in enumerate(parts) if place not in first],
    )


def _parts(parts: Sequence[Part], width: int) -> Block:
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
