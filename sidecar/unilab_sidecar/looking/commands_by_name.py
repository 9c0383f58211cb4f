"""What can be done by its name: in every view, and in the one that is shown. Pure.

Each is one key. Keys that mean a thing in one view are offered there only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from unilab_sidecar.looking.command_ranking import rank
from unilab_sidecar.looking.view_names import THEMES, VIEWS, View

_TEXTUAL = {
    "/": "slash", "?": "question_mark", "+": "plus", "-": "minus", "←": "left", "→": "right",
    "↑": "up", "↓": "down", "PgUp": "pageup", "PgDn": "pagedown", "Del": "delete", "Esc": "escape",
}  # fmt: skip


class Command(NamedTuple):
    """A thing to do. ``keys``: its key, as people know it."""

    keys: str
    name: str

    @property
    def key(self) -> str:
        """As Textual calls it."""
        return _TEXTUAL.get(self.keys, self.keys if len(self.keys) == 1 else self.keys.lower())

    @property
    def character(self) -> str | None:
        """What the key types, if people know it by that."""
        return self.keys if len(self.keys) == 1 and self.keys.isascii() else None


@dataclass(frozen=True, slots=True)
class Palette:
    """Commands by their names: what is typed, and the marked place among what passes."""

    text: str = ""
    at: int = 0


COMMANDS = (
    *(Command(str(n), f"show {view}") for n, view in enumerate(VIEWS, start=1)),
    Command("Space", "pause the display, or make it live again"),
    Command("/", "filter: words, !not, /regex/"),
    Command("s", "save what is shown, as SVG and as text"),
    Command("t", f"next theme: {', '.join(THEMES)}"),
    Command("?", "help"),
    Command("Ctrl+Z", "put the view aside until fg"),
    Command("K", "stop the training, after a question; needs --allow-control"),
    Command("q", "close the view; the training goes on"),
)
"""In every view, where it has no other meaning for the key."""

_CHARTS = (
    Command("/", "choose tags: which charts are drawn"),
    Command("l", "log scale of the values, or linear again"),
    Command("x", "x axis: iteration, environment steps, time"),
    Command("o", "overlay: one chart per tag, one for all, each on its own scale"),
    Command("c", "compare with an earlier run of this task, then the one before"),
    Command("+", "zoom in"),
    Command("-", "zoom out"),
    Command("0", "whole run, without zoom"),
    Command("PgUp", "move the zoomed window back"),
    Command("PgDn", "move the zoomed window forward"),
    Command("←", "cursor to the left"),
    Command("→", "cursor to the right"),
    Command("Home", "cursor to the left edge"),
    Command("End", "cursor to the right edge"),
    Command("↑", "mark the chart above"),
    Command("↓", "mark the chart below"),
    Command("Enter", "marked chart alone, or all again"),
    Command("Del", "remove the marked chart"),
    Command("Esc", "back: cursor, zoom, enlarged chart"),
)
_RANKS = (
    Command("o", "order: by rank, slowest first, oldest first"),
    Command("/", "choose tags: which columns are shown"),
    Command("c", "collectors below their learners, or only those in trouble"),
    Command("Del", "remove the tag that was chosen last"),
    Command("Home", "first row"),
    Command("End", "last row"),
)
_EVENTS = (
    Command("Tab", "other half: console or events"),
    Command("Enter", "zoom: the chosen half alone, or both again"),
    Command("End", "follow the newest line of the console"),
    Command("Home", "first line"),
    Command("→", "right part of long console lines"),
    Command("←", "left part of long console lines"),
)
_OWN: Mapping[View, tuple[Command, ...]] = {"charts": _CHARTS, "ranks": _RANKS, "events": _EVENTS}


def commands_of(view: View) -> tuple[Command, ...]:
    """What the palette offers in a view: its own first."""
    own = _OWN.get(view, ())
    taken = {one.key for one in own}
    return (*own, *(one for one in COMMANDS if one.key not in taken))


def matching(palette: Palette, view: View) -> tuple[Command, ...]:
    """The commands that hold every typed word, the one that is likely meant first."""
    words = palette.text.lower().split()
    ranks = [(rank(words, one.keys, one.name), one) for one in commands_of(view)]
    found = [(apart, one) for apart, one in ranks if apart is not None]
    return tuple(one for _, one in sorted(found, key=lambda pair: pair[0]))
