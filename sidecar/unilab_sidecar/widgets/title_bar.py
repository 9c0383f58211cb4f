"""The top edge of the frame with the title on it.

A widget of its own, because a border title that changes makes Textual paint everything inside
the border again, twice a second.
"""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment as RichSegment
from textual.strip import Strip
from textual.widget import Widget

from unilab_sidecar.drawing.text import fit, width_of


class TitleBar(Widget):
    """One line: ``╭─ title ────╮``. The text is literal."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"title-bar--frame", "title-bar--title"}

    def __init__(self, *, unicode: bool = True) -> None:
        super().__init__()
        self._title = ""
        self._corners = "╭─╮" if unicode else "+-+"

    def show(self, title: str) -> None:
        """Replaces the title; paints only if it is another one."""
        if title != self._title:
            self._title = title
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """The line, if it is the first one."""
        width = self.size.width
        if y or width < 2:
            return Strip.blank(width)
        frame = self.get_component_rich_style("title-bar--frame")
        title = fit(self._title, width - 6)
        middle = f" {title} " if title else ""
        rule = max(width - 3 - width_of(middle), 0)
        start, edge, end = self._corners
        segments = [
            RichSegment((start + edge)[: width - 1], frame),
            RichSegment(middle, self.get_component_rich_style("title-bar--title")),
            RichSegment(edge * rule + end, frame),
        ]
        return Strip(segments).crop(0, width)
