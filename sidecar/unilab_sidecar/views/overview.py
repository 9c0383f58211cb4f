"""Key 1: the run at a glance. A picture and a terminal's size in, lines out. Pure.

Three tiers. Under 96 columns everything stacks, with one ``Timing`` column in which a divider
separates learner and collector rows (their percentages have different denominators), and the
diagnostics move behind the timing. From 96 columns metrics stand beside rewards and learner
beside collector; from 120 columns the system has a column of its own.
"""

from __future__ import annotations

from typing import NamedTuple

from unilab_sidecar.layout import BESIDE_FROM, FRAME_CELLS, FRAME_ROWS, SYSTEM_FROM, Screen
from unilab_sidecar.overview_panels import filtered, marked, panels
from unilab_sidecar.panels import bus, metrics, timing
from unilab_sidecar.panels.bottleneck import bottleneck
from unilab_sidecar.panels.header import header, title
from unilab_sidecar.panels.parts import heading
from unilab_sidecar.panels.rewards import rewards
from unilab_sidecar.picture import Picture
from unilab_sidecar.text import Block, Segment, beside, clip, line
from unilab_sidecar.viewing import ViewState

_GAP = 3
_MOST_CHART_ROWS = 24
_EVENT_STEP = 4
"""Events that the chart makes room for at once."""
MOST_ALONE = 20_000
MOST_FILTERED = 500
"""Tags outside the table that a filter shows at most."""
_METRICS_CELLS = 48
_SOURCES_CELLS = 84
_WRITERS_CELLS = 47


def view(picture: Picture, _data: None, state: ViewState, columns: int, rows: int) -> Screen:
    """The overview as somebody has it: filtered, with a panel marked, or one alone."""
    shown = filtered(picture, state.filter)
    most = MOST_FILTERED if state.filter.strip() else metrics.USUAL_OTHERS
    if state.zoomed and state.focus in panels(picture):
        width = max(columns - FRAME_CELLS, 1)
        lines = _alone(shown, state.focus, width, max(rows - FRAME_ROWS, 0), columns)
        screen = Screen("", "Enter or Esc: the whole overview", lines)
    else:
        screen = layout(shown, columns, rows, most_others=most)
    return screen._replace(lines=[marked(parts, state.focus) for parts in screen.lines])


def layout(
    picture: Picture, columns: int, rows: int = 0, *, most_others: int = metrics.USUAL_OTHERS
) -> Screen:
    """The overview for a terminal of ``columns`` by ``rows``. Never raises, whatever the size.

    What a tall terminal has to spare goes to the rewards' chart and to more events.
    ``most_others``: tags outside the table beyond these are counted.
    """
    width = max(columns - FRAME_CELLS, 1)
    room = max(rows - FRAME_ROWS, 0)
    others = metrics.others(picture, width, most_others)
    if columns < BESIDE_FROM:
        lines = _stacked(picture, width, room, others)
    else:
        is_wide = columns >= SYSTEM_FROM
        lines = _side_by_side(picture, width, room, others, with_system=is_wide)
    return Screen(
        title(picture, max(columns - FRAME_CELLS - 2, 0)),
        "",
        [clip(parts, width) for parts in lines],
    )


def _stacked(picture: Picture, width: int, room: int, others: Block) -> Block:
    above = metrics.losses(picture, width)
    below = _one_column(picture, width)
    if more := metrics.diagnostics(picture, width):
        below += [heading("Training", width), *more]
    below += others
    below += bus.sources(picture, width)
    below += bus.writers(picture, width)
    course = rewards(picture, width, rows=0, decimals=2)
    above = _head(picture, width, len(above) + len(course) + len(below), room, short=True) + above
    spare = _spare(picture, width, room, len(above) + len(course) + len(below))
    if spare.chart_rows:
        rows = len(course) + spare.chart_rows
        course = rewards(picture, width, rows=rows, decimals=2)
    return above + course + below + bus.events(picture, width, spare.events)


def _one_column(picture: Picture, width: int) -> Block:
    """Both timelines below each other, with a divider: they have different denominators."""
    learner = timing.learner(picture, width)
    collector = timing.collector(picture, width)
    lines = [timing.timing_heading("Timing", width)] if learner or collector else []
    lines += learner
    if collector:
        divider = "╌╌ collector, own clock "
        lines.append(line(Segment(divider + "╌" * max(width - len(divider), 0), "dim")))
        lines += collector
    return lines


def _head(picture: Picture, width: int, taken: int, room: int, *, short: bool) -> Block:
    """The header, and a row for what holds the training up, free while nothing does. Where that
    row would push another one off the screen it has a place inside the header: in neither case
    does anything move. ``taken``: lines of everything below."""
    row = bottleneck(picture, width)
    lines = header(picture, width, short=short)
    if row and 0 < room < taken + len(lines) + len(row):
        return header(picture, width, short=short, slowed=True)
    return lines + row


def _side_by_side(
    picture: Picture, width: int, room: int, others: Block, *, with_system: bool
) -> Block:
    below = _timing(picture, width, with_system=with_system)
    below += others
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
    taken = rows + len(below) + len(bus.events(picture, width))
    above = _head(picture, width, taken, room, short=False)
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

    A third of what is free is for events, as far as they need it or soon will: the chart must
    not shrink with each one. After the end no more come, and the chart takes what they leave.
    """
    if picture.ended is not None:
        free = max(room - taken, 0)
        rows = min(len(bus.events(picture, width, max(free // 2, bus.USUAL_EVENTS))), free)
        return _Spare(min(free - rows, _MOST_CHART_ROWS), max(rows - 1, bus.USUAL_EVENTS))
    free = max(room - taken - bus.USUAL_EVENTS - 1, 0)
    lines = len(bus.events(picture, width, bus.USUAL_EVENTS + free)) - bus.USUAL_EVENTS - 1
    awaited = -(-max(lines, 0) // _EVENT_STEP) * _EVENT_STEP
    chart_rows = min(free - min(free // 3, awaited), _MOST_CHART_ROWS)
    return _Spare(chart_rows, bus.USUAL_EVENTS + free - chart_rows)


def _alone(picture: Picture, panel: str, width: int, room: int, columns: int) -> Block:
    """One panel on the whole screen, with everything that it has."""
    if panel == "metrics":
        lines = metrics.metrics(picture, width)
    elif panel == "rewards":
        lines = rewards(picture, width, rows=room, decimals=3)
    elif panel == "timing" and columns < BESIDE_FROM:
        lines = _one_column(picture, width)
    elif panel == "timing":
        lines = _timing(picture, width, with_system=columns >= SYSTEM_FROM)
    elif panel == "others":
        lines = metrics.others(picture, width, MOST_ALONE)
    elif panel == "sources":
        lines = bus.sources(picture, width, MOST_ALONE)
    elif panel == "writers":
        lines = bus.writers(picture, width)
    else:
        lines = bus.events(picture, width, MOST_ALONE)
    return [clip(parts, width) for parts in lines]


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
