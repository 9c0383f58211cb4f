"""A scrollable sheet of styled lines that repaints only the lines that changed."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment as RichSegment
from rich.style import Style as RichStyle
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from unilab_sidecar.text import Block, Line, filled, line_width, merged, width_of


class Sheet(ScrollView, can_focus=True):
    """Text without markup, one strip per line; styles come from the component classes."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "sheet--plain",
        "sheet--dim",
        "sheet--label",
        "sheet--value",
        "sheet--heading",
        "sheet--accent",
        "sheet--good",
        "sheet--warn",
        "sheet--bad",
        "sheet--series1",
        "sheet--series2",
        "sheet--series3",
        "sheet--series4",
        "sheet--series5",
        "sheet--series6",
        "sheet--focus",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", "down", show=False),
        Binding("k", "scroll_up", "up", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._lines: Block = []
        self._styles: dict[str, RichStyle] = {}

    def show(self, lines: Block) -> int:
        """Replaces the text; returns how many lines have to be painted again."""
        old, self._lines = self._lines, lines
        if len(lines) != len(old):
            self.virtual_size = Size(0, len(lines))
        top, changed = self.scroll_offset.y, 0
        for index in range(max(len(lines), len(old))):
            before, after = _at(old, index), _at(lines, index)
            if before != after:
                changed += 1
                start, end = _difference(before, after, self.size.width)
                self.refresh(Region(start, index - top, end - start, 1))
        return changed

    def notify_style_update(self) -> None:
        """A new theme: styles are looked up again when lines are drawn."""
        self._styles.clear()
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        """Line ``y`` of the visible part."""
        width = self.size.width
        shown = _at(self._lines, y + self.scroll_offset.y)
        segments = [
            RichSegment(part.text, self._style(part.style)) for part in merged(filled(shown, width))
        ]
        return Strip(segments, width)

    def _style(self, name: str) -> RichStyle:
        style = self._styles.get(name)
        if style is None:
            style = self.get_component_rich_style(f"sheet--{name}")
            self._styles[name] = style
        return style


def _at(lines: Block, index: int) -> Line:
    return lines[index] if 0 <= index < len(lines) else ()


def _difference(before: Line, after: Line, width: int) -> tuple[int, int]:
    """First and last cell (exclusive) of what two lines do not share, up to ``width``."""
    same = 0
    for one, other in zip(before, after, strict=False):
        if one != other:
            break
        same += 1
    start = line_width(after[:same])
    if line_width(before) != line_width(after):
        return start, width
    tail = 0
    for one, other in zip(reversed(before[same:]), reversed(after[same:]), strict=False):
        if one != other:
            break
        tail += width_of(one.text)
    return start, min(line_width(after) - tail, width)
