"""Key 1: the run at a glance. A picture and a terminal's size in, lines out. Pure.

Three tiers. Under 96 columns everything stacks, with one ``Timing`` column in which a divider
separates learner and collector rows (their percentages have different denominators), and the
diagnostics move behind the timing. From 96 columns metrics stand beside rewards and learner
beside collector; from 120 columns the system has a column of its own.
"""

from __future__ import annotations

from typing import NamedTuple

from unilab_schema.phases import collector_phases
from unilab_sidecar.drawing import lines_on_demand
from unilab_sidecar.drawing.layout import BESIDE_FROM, FRAME_CELLS, FRAME_ROWS, SYSTEM_FROM, Screen
from unilab_sidecar.drawing.lines_on_demand import each, joined
from unilab_sidecar.drawing.text import Block, Lines, Segment, beside, clip, line
from unilab_sidecar.looking.viewing import ViewState
from unilab_sidecar.panels import bus, metrics, timing
from unilab_sidecar.panels.bottleneck import bottleneck
from unilab_sidecar.panels.header import header, title
from unilab_sidecar.panels.parts import heading
from unilab_sidecar.panels.rewards import rewards
from unilab_sidecar.picture import Picture
from unilab_sidecar.views.overview_panels import filtered, marked, panels
from unilab_sidecar.views.room_for_others import as_many_as_fit, spare_rows

_GAP = 3
_MOST_CHART_ROWS = 60
_LEAST_EVENTS = 3
"""Lines of events that are worth as much as a screen that need not be scrolled."""
_HEAD_ROWS = 4
"""Of a run with which nothing is wrong."""
_LEAST_REWARDS = 8
_FIRST_EVENTS_STEP, _EVENT_STEP = 3, 4
"""Lines that the chart makes room for at once: the usual events with their heading, then more."""
MOST_ALONE = 20_000
MOST_FILTERED = 500
"""Tags outside the table that a filter shows at most."""
_METRICS_CELLS = 48
_COURSES_FROM = 114
_BOTH_GROUPS_FROM, _BOTH_GROUPS_CELLS = 150, 63
"""Where the diagnostics, too, stand in two columns."""
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
        is_searched = bool(state.filter.strip())
        screen = layout(shown, columns, rows, most_others=most, is_searched=is_searched)
    return screen._replace(lines=each(screen.lines, lambda parts: marked(parts, state.focus)))


def layout(
    picture: Picture,
    columns: int,
    rows: int = 0,
    *,
    most_others: int = metrics.USUAL_OTHERS,
    is_searched: bool = False,
) -> Screen:
    """The overview for a terminal of ``columns`` by ``rows``. Never raises, whatever the size.

    What a tall terminal has to spare goes to the rewards' chart and to more events.
    ``most_others``: tags outside the table beyond these are counted. ``is_searched``: metrics are
    what somebody looks for, so that all of them come before the timing.
    """
    width = max(columns - FRAME_CELLS, 1)
    room = max(rows - FRAME_ROWS, 0)
    if room and not is_searched and len(picture.others) > most_others:
        needed = len(layout(picture, columns, most_others=most_others).lines)
        spare = spare_rows(picture, width, room, needed)
        most_others = as_many_as_fit(picture, width, spare, most_others)
    others = metrics.others(picture, width, most_others)
    if columns < BESIDE_FROM:
        lines = _stacked(picture, width, room, others, is_searched=is_searched)
    else:
        is_wide = columns >= SYSTEM_FROM
        drawn = [] if is_searched else metrics.others_with_courses(picture, width, most_others)
        if drawn:
            others = _if_room(picture, width, room, drawn, others, with_system=is_wide)
        lines = _side_by_side(
            picture, width, room, others, with_system=is_wide, is_searched=is_searched
        )
    return Screen(
        title(picture, max(columns - FRAME_CELLS - 2, 0)),
        "",
        each(lines, lambda parts: clip(parts, width)),
    )


def _stacked(picture: Picture, width: int, room: int, others: Lines, *, is_searched: bool) -> Lines:
    above = metrics.losses(picture, width)
    below = _one_column(picture, width)
    more = metrics.diagnostics(picture, width)
    found = joined([heading("Training", width)] if more else [], more, others)
    of_bus = bus.sources(picture, width) + bus.writers(picture, width)
    below = joined(found, below, of_bus) if is_searched else joined(below, found, of_bus)
    course = rewards(picture, width, rows=0, decimals=2)
    taken = len(above) + len(course) + len(below)
    above = joined(_head(picture, width, taken, room, short=True), above)
    spare = _spare(picture, width, room, len(above) + len(course) + len(below))
    if spare.chart_rows:
        rows = len(course) + spare.chart_rows
        course = rewards(picture, width, rows=rows, decimals=2)
    return joined(above, course, below, bus.events(picture, width, spare.events))


def _one_column(picture: Picture, width: int) -> Block:
    """Both timelines below each other, with a divider: they have different denominators."""
    learner = timing.learner(picture, width)
    collector = timing.collector(picture, width, is_below=bool(learner))
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


def _if_room(
    picture: Picture, width: int, room: int, drawn: Lines, plain: Lines, *, with_system: bool
) -> Lines:
    """Other metrics with their courses where these push nothing off the screen, whatever happens:
    as for those beside the rewards, an event or an alert more makes it no other screen."""
    below = _below(picture, width, drawn, with_system=with_system, is_searched=False)
    _, left_block = _metrics(picture, width, room, len(below))
    rows = max(len(left_block), _LEAST_REWARDS)
    fits = _HEAD_ROWS + 1 + rows + len(below) + bus.USUAL_EVENTS <= room
    return drawn if fits else plain


def _below(
    picture: Picture, width: int, others: Lines, *, with_system: bool, is_searched: bool
) -> Lines:
    """What follows the metrics and the rewards, but for the events."""
    times = _timing(picture, width, with_system=with_system)
    below = joined(others, times) if is_searched else joined(times, others)
    if with_system and picture.sources:
        sources_width = min(_SOURCES_CELLS, width - _GAP - _WRITERS_CELLS)
        widths = [sources_width, width - sources_width - _GAP]
        blocks = [bus.sources(picture, widths[0]), bus.writers(picture, widths[1])]
        return joined(below, beside(blocks, widths, _GAP))
    return joined(below, bus.sources(picture, width), bus.writers(picture, width))


def _side_by_side(
    picture: Picture,
    width: int,
    room: int,
    others: Lines,
    *,
    with_system: bool,
    is_searched: bool,
) -> Lines:
    below = _below(picture, width, others, with_system=with_system, is_searched=is_searched)
    metrics_width, left_block = _metrics(picture, width, room, len(below))
    rows = max(len(left_block), 5) if left_block else _LEAST_REWARDS
    taken = max(rows, _LEAST_REWARDS) + len(below)
    taken += len(bus.events(picture, width, _LEAST_EVENTS))
    above: Lines = _head(picture, width, taken, room, short=False)
    spare = _spare(picture, width, room, len(above) + rows + len(below))
    rows += spare.chart_rows
    if left_block:
        rewards_width = width - metrics_width - _GAP
        right_block = rewards(picture, rewards_width, rows=rows, decimals=3)
        widths = [metrics_width, rewards_width]
        above = joined(above, lines_on_demand.beside([left_block, right_block], widths, _GAP))
    else:
        above = joined(above, rewards(picture, width, rows=rows, decimals=3))
    return joined(above, below, bus.events(picture, width, spare.events))


def _metrics(picture: Picture, width: int, room: int, below: int) -> tuple[int, Lines]:
    """Cells and lines of the metrics beside the rewards. With courses where there is a row for each,
    whatever happens: not as soon as an event or an alert more is on the screen is all of it another
    one. ``width``: of the screen, ``below``: lines that follow."""
    cells = max(_METRICS_CELLS, (width - _GAP) * 2 // 5)
    is_wide = width >= _COURSES_FROM
    head = len(header(picture, width, short=False)) + 1
    others = below + 1 + max(_HEAD_ROWS + bus.USUAL_EVENTS, head + _LEAST_EVENTS)
    widest = max(cells, _BOTH_GROUPS_CELLS) if is_wide else cells
    if rows := _tallest(picture, widest, room - others, most=4):
        return widest, rows
    # Losses at least, where two diagnostics in a row pay for them.
    usual = metrics.metrics(picture, _METRICS_CELLS)
    some: Lines = metrics.with_loss_courses(picture, widest) if is_wide else ()
    if some and len(some) <= len(usual):
        return widest, some
    cells = widest if width >= _BOTH_GROUPS_FROM else cells
    return cells, metrics.metrics(picture, cells)


def _tallest(picture: Picture, width: int, room: int, *, most: int = 6, cells: int = 48) -> Lines:
    """Metrics with courses of ``most`` rows each, or as many as fit into ``room``; empty if not
    even one does."""
    for height in range(most, 0, -1):
        if metrics.height_with_courses(picture, height) <= room:
            return metrics.with_courses(picture, width, height, most_cells=cells)
    return []


class _Spare(NamedTuple):
    chart_rows: int
    events: int


def _spare(picture: Picture, width: int, room: int, taken: int) -> _Spare:
    """How to use ``room`` lines of which ``taken`` are needed without the events.

    The usual events come first, then the chart, but for a third, as far as there are more events:
    for these it makes room in steps, so that it does not shrink with each one, and for none while
    there is none. After the end no more come, and the chart takes what they leave.
    """
    free = max(room - taken, 0)
    if picture.ended is not None:
        rows = min(len(bus.events(picture, width, max(free // 2, bus.USUAL_EVENTS))), free)
        return _Spare(min(free - rows, _MOST_CHART_ROWS), max(rows - 1, bus.USUAL_EVENTS))
    usual = _in_steps(len(bus.events(picture, width)), _FIRST_EVENTS_STEP)
    if free <= usual:
        return _Spare(0, free - 1 if free > _LEAST_EVENTS else bus.USUAL_EVENTS)
    free -= usual
    lines = len(bus.events(picture, width, bus.USUAL_EVENTS + free)) - usual
    awaited = _in_steps(max(lines, 0), _EVENT_STEP)
    chart_rows = min(free - min(free // 3, awaited), _MOST_CHART_ROWS)
    return _Spare(chart_rows, max(usual - 1, 0) + free - chart_rows)


def _in_steps(lines: int, step: int) -> int:
    return -(-lines // step) * step


def _alone(picture: Picture, panel: str, width: int, room: int, columns: int) -> Lines:
    """One panel on the whole screen, with everything that it has."""
    lines: Lines
    if panel == "metrics":
        lines = _tallest(picture, width, room, cells=width) or metrics.metrics(picture, width)
    elif panel == "rewards":
        lines = rewards(picture, width, rows=room, decimals=3, most=room)
    elif panel == "timing" and columns < BESIDE_FROM:
        lines = _one_column(picture, width)
    elif panel == "timing":
        lines = _timing(picture, width, with_system=columns >= SYSTEM_FROM)
    elif panel == "others":
        drawn = metrics.others_with_courses(picture, width, None)
        lines = drawn if 0 < len(drawn) <= room else metrics.others(picture, width, None)
    elif panel == "sources":
        lines = bus.sources(picture, width, MOST_ALONE)
    elif panel == "writers":
        lines = bus.writers(picture, width)
    else:
        lines = bus.events(picture, width, MOST_ALONE)
    return each(lines, lambda parts: clip(parts, width))


def _timing(picture: Picture, width: int, *, with_system: bool) -> Block:
    titles = ("Learner", "Collector")
    if with_system:
        titles = ("Learner (Iter Wall)", "Collector (own clock)")
    shown = picture.collector
    # What an algorithm never has leaves its place to the others.
    has_collector = bool(collector_phases(picture.run.algorithm) or (shown and shown.rows))
    count = 1 + has_collector + with_system
    widths = [(width - _GAP * (count - 1)) // count] * count
    widths[0] += width - sum(widths) - _GAP * (count - 1)
    learner = timing.learner(picture, widths[0])
    blocks = [[timing.timing_heading(titles[0], widths[0]), *learner] if learner else []]
    if has_collector:
        collector = timing.collector(picture, widths[1])
        percent = shown is not None and shown.cycle_ms is not None
        title_line = timing.timing_heading(titles[1], widths[1], percent=percent)
        blocks.append([title_line, *collector] if collector else [])
    if with_system:
        system = timing.system(picture, widths[-1])
        named = [heading("System", widths[-1]), *system] if system else []
        if not any(blocks):
            # Nothing has been timed yet, and it would hang at the right with nothing beside it.
            return named
        blocks.append(named)
    return beside(blocks, widths, _GAP) if any(blocks) else []
