"""The learner's and the collector's timelines, and the system column. Pure.

The two timelines have different denominators and are never added; what Other, percentages
and the cycle mean is decided in ``unilab_schema.timing``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from unilab_schema.timing import ITER_WALL, OTHER, PhaseSpec, Row
from unilab_sidecar.charting.block_charts import bar
from unilab_sidecar.drawing import formatting
from unilab_sidecar.drawing.flow import flowed
from unilab_sidecar.drawing.text import Block, Line, Segment, Style, left, line, right, width_of
from unilab_sidecar.groups import grouping
from unilab_sidecar.panels.node import node_cells
from unilab_sidecar.panels.parts import (
    Cell,
    columns_heading,
    grid,
    reading_style,
    reading_text,
)
from unilab_sidecar.picture import Metric, Picture

_MS_CELLS = 9
_PERCENT_CELLS = 8
_MIN_LABEL = 4
_MAX_LABEL = 22
_MIN_BAR = 6
_MAX_BAR = 40
_OWN = "also timed, in no sum:"
_MPS = {0: "off", 1: "ambient", 2: "on"}


def learner(picture: Picture, width: int) -> Block:
    """Rows of the learner's wall, without a heading; an alert line if they exceed it."""
    timeline = picture.learner
    if timeline is None:
        return []
    rows = _rows(timeline.rows, width)
    if timeline.over_accounted and timeline.accounted_percent is not None:
        share = formatting.percent(timeline.accounted_percent)
        told = f"phases overlap: {share} of wall"
        rows += flowed(Segment("! ", "bad"), [Segment(told, "bad")], width)
    return rows


def collector(picture: Picture, width: int, *, is_below: bool = False) -> Block:
    """Rows of the collector's own clock, without a heading. ``is_below``: beneath the learner's,
    whose milliseconds theirs are to stand under."""
    if picture.collector is None:
        return []
    shown = picture.collector.rows
    own = next((place for place, row in enumerate(shown) if row.own), None)
    if own is not None and picture.collector.cycle_ms is None:
        # Without a cycle nothing is a part of one.
        shown = tuple(row._replace(detail=row.detail and not row.own) for row in shown)
    rows = _rows(shown, width, has_percent=is_below)
    if own is not None and picture.collector.cycle_ms is not None:
        # Or the rows of an algorithm would seem to be more than their sum.
        rows.insert(own, line(Segment(left(_OWN, width), "dim")))
    if rows and picture.collector.missing:
        rows.append(_not_timed(picture.collector.missing, width))
    return rows


def _not_timed(missing: Sequence[PhaseSpec], width: int) -> Line:
    """A share of something unknown is no number, nor is what nobody has timed 0. In one line: most
    of them have a row that is blank."""
    told = "no %, not timed: "
    forms = (
        ", ".join(phase.label for phase in missing),
        ", ".join(phase.short_label for phase in missing),
    )
    names = next((form for form in forms if width_of(told + form) <= width), "")
    if names:
        return line(Segment(told, "label"), Segment(names, "dim"))
    return line(Segment(f"no %: {len(missing)} not timed", "label"))


def timing_heading(title: str, width: int, *, percent: bool = True) -> Line:
    """A heading with ``ms`` and ``%`` above the numbers."""
    titles = [("ms", _label_cells(width, percent=percent) + _MS_CELLS)]
    if percent:
        titles.append(("%", titles[0][1] + _PERCENT_CELLS))
    return columns_heading(title, width, titles)


def system(picture: Picture, width: int) -> Block:
    """Buffer, timeout rate, environments, batch and CUDA MPS, then the node, without a heading."""
    readings = {metric.tag: metric for metric in picture.system}
    cells: list[Cell] = []
    if (size := readings.get(grouping.BUFFER_SIZE)) is not None:
        text = formatting.whole(size.reading.value)
        capacity = readings.get(grouping.BUFFER_CAPACITY)
        if capacity is not None and capacity.reading.value > 0:
            text += f" / {formatting.whole(capacity.reading.value)}"
        cells.append(_cell("Buffer", size, text))
    if (rate := readings.get(grouping.TIMEOUT_RATE)) is not None:
        cells.append(_cell("Timeout Rate", rate, formatting.percent(100 * rate.reading.value)))
    for label, tag in (("Envs", grouping.ENVIRONMENTS), ("Batch/Rank", grouping.BATCH_PER_RANK)):
        if (metric := readings.get(tag)) is not None:
            cells.append(_cell(label, metric, formatting.whole(metric.reading.value)))
    if (mps := readings.get(grouping.MPS)) is not None:
        value = mps.reading.value
        word = _MPS.get(round(value) if math.isfinite(value) else 0, "off")
        cells.append(_cell("CUDA MPS", mps, word))
    cells += node_cells(picture, width)
    if width < 24:
        return [row for cell in cells for row in grid([cell], width)]
    return _aligned(cells, width)


def _aligned(cells: Sequence[Cell], width: int) -> Block:
    """Values end at the right edge; a long one comes as near to its label as it must."""
    return [
        line(
            Segment(cell.label, "label"),
            Segment(right(cell.text, max(width - width_of(cell.label), 1)), cell.style),
        )
        for cell in cells
    ]


def _cell(label: str, metric: Metric, text: str) -> Cell:
    return Cell(label, reading_text(metric.reading, text), reading_style(metric.reading))


def _rows(rows: Sequence[Row], width: int, *, has_percent: bool = False) -> Block:
    with_percent = any(row.percent is not None for row in rows)
    room = _label_cells(width, percent=with_percent or has_percent)
    bar_cells = _bar_cells(width) if with_percent else 0
    short = any(width_of(row.label) + 2 * row.detail > room for row in rows)
    return [_row(row, room, bar_cells, short=short, with_percent=with_percent) for row in rows]


def _row(row: Row, room: int, bar_cells: int, *, short: bool, with_percent: bool) -> Line:
    indent = "  " if row.detail else ""
    label = row.short_label if short else row.label
    total = row.label == ITER_WALL
    style: Style = "value" if total else "dim" if row.detail or row.label == OTHER else "plain"
    ms = formatting.UNKNOWN if row.ms is None else formatting.milliseconds(row.ms)
    share = formatting.UNKNOWN if row.percent is None else formatting.percent(row.percent)
    bad = row.ms is not None and not math.isfinite(row.ms)
    parts: list[Segment | str] = [
        Segment(left(indent + label, room), "value" if total else "label"),
        Segment(right(ms, _MS_CELLS), "bad" if bad else style),
    ]
    if with_percent:
        parts.append(Segment(right(share.removesuffix(" %"), _PERCENT_CELLS), style))
        if bar_cells and not total:
            drawn = bar((row.percent or 0.0) / 100.0, bar_cells)
            parts += [" ", Segment(drawn, "dim" if style == "dim" else "accent")]
    return line(*parts)


def _bar_cells(width: int) -> int:
    spare = width - _MAX_LABEL - _MS_CELLS - _PERCENT_CELLS - 1
    return min(spare, _MAX_BAR) if spare >= _MIN_BAR else 0


def _label_cells(width: int, *, percent: bool) -> int:
    """Cells left of the numbers: what they and the bar leave."""
    if not percent:
        return max(width - _MS_CELLS, _MIN_LABEL)
    bar_cells = _bar_cells(width)
    taken = _MS_CELLS + _PERCENT_CELLS + (bar_cells + 1 if bar_cells else 0)
    return max(width - taken, _MIN_LABEL)
