"""Metrics as labelled values in columns, of which only the rows that are looked at are made.
Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from unilab_sidecar.drawing.lines_on_demand import LinesOnDemand
from unilab_sidecar.drawing.text import Line, Lines
from unilab_sidecar.groups.metric_group import Labels, MetricGroup, group_of
from unilab_sidecar.panels.parts import AGE_CELLS, GAP, VALUE_CELLS, grid_row, grids, metric_cell
from unilab_sidecar.picture import Metric

MOST_MEASURED = 200
"""Metrics whose values' widths make the columns. Of more, columns are as wide as values usually
become, so that nothing is formatted that is not seen, and nothing moves when one changes."""
_MILLISECONDS_CELLS = 12


class Columns(NamedTuple):
    """Side by side: the cells of each one's labels and values."""

    labels: tuple[int, ...]
    values: tuple[int, ...]


def metric_grid(metrics: Sequence[Metric], width: int, *, value_cells: int = VALUE_CELLS) -> Lines:
    """Labelled values in as many columns as fit, row by row, values aligned at the right."""
    return metric_grids([metrics], width, value_cells=value_cells)[0]


def metric_grids(
    groups: Sequence[Sequence[Metric]],
    width: int,
    *,
    indent: int = 0,
    value_cells: int = VALUE_CELLS,
) -> Sequence[Lines]:
    """A block per group, each beginning in a row of its own, with columns below each other.
    ``value_cells``: of values that are measured, at least."""
    made = [group_of(group) for group in groups]
    if sum(map(len, made)) <= MOST_MEASURED:
        cells = [[metric_cell(one) for one in group] for group in made]
        return grids(cells, width, indent=indent, value_cells=value_cells)
    cells = max(map(_value_cells, made))
    columns = _columns(tuple(group.labels for group in made), cells, width - indent)
    return [_rows(group, columns, indent) for group in made]


def _rows(group: MetricGroup, columns: Columns, indent: int) -> Lines:
    count = len(columns.labels)

    def draw(row: int) -> Line:
        places = range(len(group))[row * count : (row + 1) * count]
        cells = [metric_cell(group[place]) for place in places]
        return grid_row(cells, columns.labels, columns.values, indent)

    return LinesOnDemand(-(-len(group) // count), draw)


def _value_cells(group: MetricGroup) -> int:
    cells = _MILLISECONDS_CELLS if group.labels.has_milliseconds else VALUE_CELLS
    return cells if group.are_fresh() else cells + AGE_CELLS


@lru_cache(maxsize=64)
def _columns(groups: tuple[Labels, ...], values: int, room: int) -> Columns:
    longest = max((len(labels.all) for labels in groups), default=0)
    for count in range(min(longest, max(room // (VALUE_CELLS + 4), 1)), 0, -1):
        widths = tuple(
            max(max(labels.cells[first::count], default=0) for labels in groups)
            for first in range(count)
        )
        if sum(widths) + count * (values + 1) + GAP * (count - 1) <= room:
            return Columns(widths, (values,) * count)
    # Not even one column: the label gives way, the number is what people look for.
    values = min(values, max(room, 1))
    return Columns((max(room - values - 1, 0),), (values,))
