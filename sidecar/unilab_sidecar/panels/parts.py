"""What several panels are made of: headings, readings, grids of labelled values. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from unilab_sidecar.drawing import formatting
from unilab_sidecar.drawing.text import (
    Block,
    Line,
    Segment,
    Style,
    clean,
    left,
    line,
    right,
    width_of,
)
from unilab_sidecar.picture import Metric, Reading

VALUE_CELLS = 9
AGE_CELLS = 9
"""`` (12 min)``."""
GAP = 3


class Cell(NamedTuple):
    """A label and its value, ready to be drawn. ``least``: cells that the value may need soon."""

    label: str
    text: str
    style: Style = "value"
    least: int = 0

    @property
    def cells(self) -> int:
        """Of the value, that a column has for it."""
        return max(width_of(self.text), self.least)


def heading(title: str, width: int, *, note: str = "") -> Line:
    """A title, a rule to the end of the line, and column titles at its right."""
    room = max(width - width_of(title) - width_of(note) - (2 if note else 1), 0)
    return line(
        Segment(title, "heading"),
        Segment(" " + "─" * room, "dim"),
        Segment(f" {note}" if note else "", "dim"),
    )


def columns_heading(title: str, width: int, titles: Sequence[tuple[str, int]]) -> Line:
    """A title, a rule, and on it a word above each column of numbers: its text and the cell behind
    its end. Without room for them a plain heading."""
    start = width_of(title)
    if not titles or titles[0][1] - len(titles[0][0]) - 2 <= start or titles[-1][1] > width:
        return heading(title, width)
    rule = ["─"] * max(width, 0)
    rule[start] = " "
    for text, end in titles:
        rule[end - len(text) - 1 : end + 1] = f" {text} "[: width - end + len(text) + 1]
    return line(Segment(title, "heading"), Segment("".join(rule[start:]), "dim"))


def subheading(title: str) -> Line:
    """A group inside a panel."""
    return line(Segment(title, "label"))


def reading_text(reading: Reading, shown: str) -> str:
    """The formatted value, with its age if the window lacks the tag."""
    if reading.stale_s is None:
        return shown
    age = formatting.age(reading.stale_s) if math.isfinite(reading.stale_s) else "old"
    return f"{shown} ({age})"


def reading_style(reading: Reading) -> Style:
    """NaN and infinities stand out, values of the past step back; the text says both too."""
    if not math.isfinite(reading.value):
        return "bad"
    return "value" if reading.stale_s is None else "dim"


def metric_cell(metric: Metric) -> Cell:
    """A metric with four digits; milliseconds keep their unit."""
    value = metric.reading.value
    shown = formatting.value(value)
    if metric.unit == "ms":
        shown = f"{formatting.milliseconds(value)} ms"
    reading = metric.reading
    is_aged = reading.is_rare or reading.stale_s is not None
    # What is logged now and then is not to make other columns of all each time.
    least = max(width_of(shown), VALUE_CELLS) + AGE_CELLS if is_aged else 0
    text = reading_text(reading, shown)
    return Cell(clean(metric.label), text, reading_style(reading), least)


def grid(cells: Sequence[Cell], width: int, *, indent: int = 0) -> Block:
    """Labelled values in as many columns as fit, row by row, values aligned at the right."""
    return grids([cells], width, indent=indent)[0]


def grids(
    groups: Sequence[Sequence[Cell]],
    width: int,
    *,
    indent: int = 0,
    value_cells: int = VALUE_CELLS,
) -> list[Block]:
    """A block per group, each beginning in a row of its own, with columns below each other.
    ``value_cells``: of a column, so that it does not move with each digit more."""
    room = width - indent
    longest = max(map(len, groups), default=0)
    count, labels, values = 1, [0], [0]
    for count in range(min(longest, max(room // (VALUE_CELLS + 4), 1)), 0, -1):
        columns = [[c for cells in groups for c in cells[first::count]] for first in range(count)]
        labels = [max(width_of(cell.label) for cell in column) for column in columns]
        values = [max(value_cells, *(cell.cells for cell in column)) for column in columns]
        if sum(labels) + sum(values) + count + GAP * (count - 1) <= room:
            break
    else:
        # Not even one column: the label gives way, the number is what people look for.
        count = 1
        texts = [cell.cells for cells in groups for cell in cells]
        values = [min(max(texts, default=0), max(room, 1))]
        labels = [max(room - values[0] - 1, 0)]
    return [
        [
            grid_row(cells[first : first + count], labels, values, indent)
            for first in range(0, len(cells), count)
        ]
        for cells in groups
    ]


def grid_row(
    cells: Sequence[Cell], labels: Sequence[int], values: Sequence[int], indent: int
) -> Line:
    """One row of labelled values. A value that is wider than its column takes cells of its
    label."""
    parts: list[Segment | str] = [" " * indent]
    for index, cell in enumerate(cells):
        if index:
            parts.append(" " * GAP)
        taken = min(max(width_of(cell.text) - values[index], 0), labels[index])
        parts.append(Segment(left(cell.label, labels[index] - taken), "label"))
        parts.append(" " if labels[index] else "")
        parts.append(Segment(right(cell.text, values[index] + taken), cell.style))
    return line(*parts)
