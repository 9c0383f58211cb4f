"""Which colours a terminal is sent. ``NO_COLOR`` and the terminal's own word decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from unilab_sidecar.looking.viewing import THEMES

_GREY = frozenset({"Monochrome", "NoColor"})


class WithoutColour(LineFilter):
    """Takes every colour out and leaves bold, dim and reverse; Textual's own filter for this
    sends shades of grey."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002
        """The segments without colours."""
        return [
            Segment(text, None if style is None else style.without_color, control)
            for text, style, control in segments
        ]


def without_grey(filters: Sequence[LineFilter]) -> list[LineFilter]:
    """Those of Textual except its own ones for ``NO_COLOR``, which an empty one sets too."""
    return [one for one in filters if type(one).__name__ not in _GREY]


def without_colour(filters: Sequence[LineFilter]) -> list[LineFilter]:
    """The same, and no colour at all."""
    return [*without_grey(filters), WithoutColour()]


def wants_no_colour(environ: Mapping[str, str]) -> bool:
    """As https://no-color.org says: set, and not empty."""
    return bool(environ.get("NO_COLOR"))


def has_few_colours(environ: Mapping[str, str]) -> bool:
    """Whether the terminal announces no more than sixteen, as Rich understands it."""
    if environ.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
        return False
    return environ.get("TERM", "").strip().lower().rpartition("-")[2] not in ("256color", "kitty")


def usual_theme(environ: Mapping[str, str]) -> str:
    """The theme of somebody who has chosen none: the terminal's own sixteen colours where it has
    no more, or where there is to be none at all. Without an environment nobody knows of a limit."""
    has_few = bool(environ) and has_few_colours(environ)
    return "ansi" if has_few or wants_no_colour(environ) else THEMES[0]
