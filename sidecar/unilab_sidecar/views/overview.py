"""Key 1: the run at a glance. A picture and a terminal's size in, lines out. Pure.

Three tiers. Under 96 columns everything stacks, with one ``Timing`` column in which a divider
separates learner and collector rows (their percentages have different denominators), and the
diagnostics move behind the timing. From 96 columns metrics stand beside rewards and learner
beside collector; from 120 columns the system has a column of its own.
"""

from __future__ import annotations

from typing import NamedTuple

from unilab_sidecar.layout import BESIDE_FROM, FRAME_CELLS, FRAME_ROWS, SYSTEM_FROM, Screen
from unilab_sidecar.panels import bus, metrics, timing
from unilab_sidecar.panels.bottleneck import bottleneck
from unilab_sidecar.panels.header import header, title
from unilab_sidecar.panels.parts import heading
from unilab_sidecar.panels.rewards import rewards
from unilab_sidecar.picture import Picture
from unilab_sidecar.text import Block, Segment, beside, clip, line

_GAP = 3
_MORE_CHART_ROWS = 16
_MOST_CHART_ROWS = 24
_METRICS_CELLS = 48
_SOURCES_CELLS = 84
_WRITERS_CELLS = 47


def layout(picture: Picture, columns: int, rows: int = 0) -> Screen:
    """The overview for a terminal of ``columns`` by ``rows``. Never raises, whatever the size.

    What a tall terminal has to spare goes to the rewards' chart and to more events.
    """
    width = max(columns - FRAME_CELLS, 1)
    room = max(rows - FRAME_ROWS, 0)
    if columns < BESIDE_FROM:
        lines = _stacked(picture, width, room)
    else:
        lines = _side_by_side(picture, width, room, with_system=columns >= SYSTEM_FROM)
    hint = "↑ ↓ scroll · q close"
    return Screen(
        title(picture, max(columns - FRAME_CELLS - 2, 0)),
        hint if columns >= len(hint) + FRAME_CELLS + 2 else "",
        [clip(parts, width) for parts in lines],
    )


def _stacked(picture: Picture, width: int, room: int) -> Block:
    above = header(picture, width, short=True) + bottleneck(picture, width)
    above += metrics.losses(picture, width)
    below: Block = []
    learner = timing.learner(picture, width)
    collector = timing.collector(picture, width)
    if learner or collector:
        below.append(timing.timing_heading("Timing", width))
        below += learner
        if collector:
            divider = "╌╌ collector, own clock "
            below.append(line(Segment(divider + "╌" * max(width - len(divider), 0), "dim")))
            below += collector
    if more := metrics.diagnostics(picture, width):
        below += [heading("Training", width), *more]
    below += metrics.others(picture, width)
    below += bus.sources(picture, width)
    below += bus.writers(picture, width)
    course = rewards(picture, width, rows=0, decimals=2)
    spare = _spare(picture, width, room, len(above) + len(course) + len(below))
    if spare.chart_rows:
        rows = len(course) + spare.chart_rows
        course = rewards(picture, width, rows=rows, decimals=2)
    return above + course + below + bus.events(picture, width, spare.events)


def _side_by_side(picture: Picture, width: int, room: int, *, with_system: bool) -> Block:
    above = header(picture, width, short=False) + bottleneck(picture, width)
    below = _timing(picture, width, with_system=with_system)
    below += metrics.others(picture, width)
    if with_system:
        sources_width = min(_SOURCES_CELLS, width - _GAP - _WRITERS_CELLS)
        widths = [sources_width, width - sources_width - _GAP]
        blocks = [bus.sources(picture, widths[0]), bus.writers(picture, widths[1])]
        below += beside(blocks, widths, _GAP)
    else:
        below += bus.sources(picture, width) + bus.writers(picture, width)
    metrics_width = max(_METRICS_CELLS, (width - _GAP) * 2 // 5)
    left_block = metrics.metrics(picture, metrics_width)
    rows = max(len(left_block), 5) if left_block else 8
    spare = _spare(picture, width, room, len(above) + rows + len(below))
    rows += spare.chart_rows
    if left_block:
        rewards_width = width - metrics_width - _GAP
        right_block = rewards(picture, rewards_width, rows=rows, decimals=3)
        above += beside([left_block, right_block], [metrics_width, rewards_width], _GAP)
    else:
        above += rewards(picture, width, rows=rows, decimals=3)
    return above + below + bus.events(picture, width, spare.events)


class _Spare(NamedTuple):
    chart_rows: int
    events: int


def _spare(picture: Picture, width: int, room: int, taken: int) -> _Spare:
    """How to use ``room`` lines of which ``taken`` are needed without the events.

    A third of what is free is for events, whether they are there yet or not: the chart must
    not shrink with each one. After the end no more come, and the chart takes what they leave.
    """
    if picture.ended is not None:
        free = max(room - taken, 0)
        rows = min(len(bus.events(picture, width, max(free // 2, bus.USUAL_EVENTS))), free)
        return _Spare(min(free - rows, _MOST_CHART_ROWS), max(rows - 1, bus.USUAL_EVENTS))
    free = max(room - taken - bus.USUAL_EVENTS - 1, 0)
    chart_rows = min(free - free // 3, _MORE_CHART_ROWS)
    return _Spare(chart_rows, bus.USUAL_EVENTS + free - chart_rows)


def _timing(picture: Picture, width: int, *, with_system: bool) -> Block:
    titles = ("Learner", "Collector")
    count = 2
    if with_system:
        titles = ("Learner (Iter Wall)", "Collector (own clock)")
        count = 3
    widths = [(width - _GAP * (count - 1)) // count] * count
    widths[0] += width - sum(widths) - _GAP * (count - 1)
    learner = timing.learner(picture, widths[0])
    collector = timing.collector(picture, widths[1])
    percent = picture.collector is not None and picture.collector.cycle_ms is not None
    if learner:
        learner = [timing.timing_heading(titles[0], widths[0]), *learner]
    if collector:
        collector = [
            timing.timing_heading(titles[1], widths[1], percent=percent),
            *collector,
        ]
    blocks = [learner, collector]
    if with_system:
        system = timing.system(picture, widths[2])
        blocks.append([heading("System", widths[2]), *system] if system else [])
    return beside(blocks, widths, _GAP) if any(blocks) else []
