"""The commands by their names, for whoever has pressed ``:``. Pure."""

from __future__ import annotations

from unilab_sidecar.drawing.layout import FRAME_CELLS, FRAME_ROWS, Screen
from unilab_sidecar.drawing.text import Block, Segment, clean, clip, fit, left, line, width_of
from unilab_sidecar.looking.commands_by_name import Palette, commands_of, matching
from unilab_sidecar.looking.view_names import View

_KEY_CELLS = 10


def view(palette: Palette, shown: View, columns: int, rows: int) -> Screen:
    """What is typed, and the commands that hold it; Enter does the marked one. ``shown``: the view
    from which it was opened, whose own commands come first."""
    width, room = max(columns - FRAME_CELLS, 1), max(rows - FRAME_ROWS, 1)
    found = matching(palette, shown)
    at = min(palette.at, max(len(found) - 1, 0))
    typed = clean(palette.text)
    while width_of(typed) > max(width - 30, 8):
        typed = typed[1:]
    lines: Block = [
        line(
            Segment("Command ", "heading"),
            Segment(typed, "value"),
            Segment("▏", "accent"),
            Segment("" if typed else "  type a part of its name", "dim"),
        ),
        (),
    ]
    if not found:
        lines.append(line(Segment("No command holds all of these words.", "label")))
    space = max(room - len(lines), 1)
    first = min(max(at - space // 2, 0), max(len(found) - space, 0))
    for place, one in enumerate(found[first : first + space], start=first):
        is_marked = place == at
        lines.append(
            line(
                Segment("▸ " if is_marked else "  ", "accent"),
                Segment(left(one.keys, _KEY_CELLS), "value" if is_marked else "label"),
                Segment(fit(one.name, width - _KEY_CELLS - 2), "value" if is_marked else "plain"),
            )
        )
    count = f"{len(found)} of {len(commands_of(shown))} commands"
    hint = f"{count} · ↑ ↓ choose · Enter do it · Esc back"
    return Screen("Commands", hint, [clip(parts, width) for parts in lines[:room]])
