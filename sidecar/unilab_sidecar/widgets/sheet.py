"""A scrollable sheet of styled lines that repaints only the lines that changed."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment as RichSegment
from rich.style import Style as RichStyle
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from unilab_sidecar.drawing.text import Line, Lines, Segment, filled, line_width, merged, width_of
from unilab_sidecar.looking.scroll_places import ScrollTo

_NEAR_CELLS = 8


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
        self._lines: Lines = []
        self._styles: dict[str, RichStyle] = {}

    def show(self, lines: Lines) -> int:
        """Replaces the text; returns how many lines have to be painted again: of those that are
        seen, since all are painted when it is scrolled."""
        old, self._lines = self._lines, lines
        if len(lines) != len(old):
            self.virtual_size = Size(0, len(lines))
        top, changed = self.scroll_offset.y, 0
        regions: list[Region] = []
        for index in range(top, min(top + self.size.height, max(len(lines), len(old)))):
            before, after = _at(old, index), _at(lines, index)
            if before != after:
                changed += 1
                regions += [
                    Region(start, index - top, end - start, 1)
                    for start, end in differences(before, after, self.size.width)
                ]
        if regions:
            self.refresh(*regions)
        return changed

    def go(self, to: ScrollTo | None) -> None:
        """Scrolls; ``None`` for nowhere."""
        if to is not None and to.is_other:
            self.call_after_refresh(self.scroll_to, y=to.y, animate=False)
        elif to is not None:
            self.scroll_to(y=to.y, animate=False)

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


def _at(lines: Lines, index: int) -> Line:
    return lines[index] if 0 <= index < len(lines) else ()


def differences(before: Line, after: Line, width: int) -> list[tuple[int, int]]:
    """First and last cell (exclusive) of each stretch that two lines do not share, up to
    ``width``. Stretches with less between them than it takes to move the cursor are one."""
    old, new = _cells(before), _cells(after)
    if old is None or new is None:
        start, end = _difference(before, after, width)
        return [(start, end)] if start < end else []
    blank = (" ", "plain")
    old += [blank] * (width - len(old))
    new += [blank] * (width - len(new))
    found: list[tuple[int, int]] = []
    for at in range(width):
        if old[at] == new[at]:
            continue
        if found and at - found[-1][1] < _NEAR_CELLS:
            found[-1] = (found[-1][0], at + 1)
        else:
            found.append((at, at + 1))
    return found


def _cells(parts: Line) -> list[tuple[str, str]] | None:
    """Each cell's character and style, ``None`` if one character is not one cell."""
    made: list[tuple[str, str]] = []
    for part in parts:
        if width_of(part.text) != len(part.text) or not part.text.isprintable():
            return None
        made += [(character, part.style) for character in part.text]
    return made


def _difference(before: Line, after: Line, width: int) -> tuple[int, int]:
    """First and last cell (exclusive) of what two lines do not share, up to ``width``."""
    start = _shared(before, after)
    if line_width(before) != line_width(after):
        return start, width
    end = line_width(after) - _shared(_turned(before), _turned(after))
    return start, min(max(end, start), width)


def _shared(one: Line, other: Line) -> int:
    """Cells that two lines have in common from their first one on."""
    cells = 0
    for before, after in zip(one, other, strict=False):
        if before == after:
            cells += width_of(after.text)
            continue
        return cells + (
            _shared_start(before.text, after.text) if before.style == after.style else 0
        )
    return cells


def _shared_start(one: str, other: str) -> int:
    """Cells of the beginning that two texts share, as far as each character has one of its own."""
    count = 0
    for before, after in zip(one, other, strict=False):
        if before != after or width_of(before) != 1:
            break
        count += 1
    if any(
        rest and not width_of(rest) for rest in (one[count : count + 1], other[count : count + 1])
    ):
        # A mark above a letter is drawn together with it.
        return max(count - 1, 0)
    return count


def _turned(parts: Line) -> Line:
    return tuple(Segment(part.text[::-1], part.style) for part in reversed(parts))
