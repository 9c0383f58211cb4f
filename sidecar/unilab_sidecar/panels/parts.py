"""What several panels are made of: headings, readings, grids of labelled values. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from unilab_sidecar import formatting
from unilab_sidecar.picture import Metric, Reading
from unilab_sidecar.text import Block, Line, Segment, Style, clean, left, line, right, width_of

VALUE_CELLS = 9
_GAP = 3


class Cell(NamedTuple):
    """A label and its value, ready to be drawn."""

    label: str
    text: str
    style: Style = "value"


def heading(title: str, width: int, *, note: str = "") -> Line:
    """A title, a rule to the end of the line, and column titles at its right."""
    room = max(width - width_of(title) - width_of(note) - (2 if note else 1), 0)
    return line(
        Segment(title, "heading"),
        Segment(" " + "─" * room, "dim"),
        Segment(f" {note}" if note else "", "dim"),
    )


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
    text = reading_text(metric.reading, shown)
    return Cell(clean(metric.label), text, reading_style(metric.reading))


def grid(cells: Sequence[Cell], width: int, *, indent: int = 0) -> Block:
    """Labelled values in as many columns as fit, row by row, values aligned at the right."""
    return grids([cells], width, indent=indent)[0]


def grids(groups: Sequence[Sequence[Cell]], width: int, *, indent: int = 0) -> list[Block]:
    """A block per group, each beginning in a row of its own, with columns below each other."""
    room = width - indent
    longest = max(map(len, groups), default=0)
    count, labels, values = 1, [0], [0]
    for count in range(min(longest, max(room // (VALUE_CELLS + 4), 1)), 0, -1):
        columns = [[c for cells in groups for c in cells[first::count]] for first in range(count)]
        labels = [max(width_of(cell.label) for cell in column) for column in columns]
        values = [max(VALUE_CELLS, *(width_of(cell.text) for cell in column)) for column in columns]
        if sum(labels) + sum(values) + count + _GAP * (count - 1) <= room:
            break
    else:
        # Not even one column: the label gives way, the number is what people look for.
        count = 1
        texts = [width_of(cell.text) for cells in groups for cell in cells]
        values = [min(max(texts, default=0), max(room, 1))]
        labels = [max(room - values[0] - 1, 0)]
    return [
        [
            _grid_row(cells[first : first + count], labels, values, indent)
            for first in range(0, len(cells), count)
        ]
        for cells in groups
    ]


def _grid_row(
    cells: Sequence[Cell], labels: Sequence[int], values: Sequence[int], indent: int
) -> Line:
    parts: list[Segment | str] = [" " * indent]
    for index, cell in enumerate(cells):
        if index:
            parts.append(" " * _GAP)
        parts.append(Segment(left(cell.label, labels[index]), "label"))
        parts.append(" " if labels[index] else "")
        parts.append(Segment(right(cell.text, values[index]), cell.style))
    return line(*parts)
