"""What goes through the bus: rates, queues and delays, each with its course, and charts. Pure."""

from __future__ import annotations

import math
from typing import NamedTuple

from unilab_sidecar.charting.axes import scale_of, time_label
from unilab_sidecar.charting.fitting import fitted
from unilab_sidecar.charting.small_curve import curve
from unilab_sidecar.drawing import formatting
from unilab_sidecar.drawing.text import (
    Block,
    Line,
    Segment,
    Style,
    beside,
    clean,
    clip,
    left,
    line,
    line_width,
    right,
)
from unilab_sidecar.panels.parts import heading, reading_style, reading_text
from unilab_sidecar.picture import Picture, Reading
from unilab_sidecar.values import bus_courses

_LABEL_CELLS = 21
_VALUE_CELLS = 11
_COURSE_FROM = 10
_AXIS_CELLS = 7
_DOTS = 4
_GAP = 3
_MOST_CHART_ROWS = 22
_LEAST_CHART_ROWS = 6
"""With its heading and its rule."""


class _Figure(NamedTuple):
    label: str
    text: str
    style: Style
    course: str = ""


def flow(picture: Picture, width: int) -> Block:
    """Rates, queues and delays, a line each."""
    figures = _figures(picture)
    if not figures:
        return [
            heading("Queues and delays", width),
            line(Segment("nobody says", "dim")),
        ]
    note = _covered(picture)
    is_wide = width >= _LABEL_CELLS + _VALUE_CELLS + _COURSE_FROM
    return [
        heading("Queues and delays", width, note=note if is_wide else ""),
        *(_row(figure, picture, width) for figure in figures),
    ]


def charts(picture: Picture, width: int, rows: int) -> Block:
    """What is worth a chart, side by side in the ``rows`` that are free; nothing below six."""
    rows = min(rows, _MOST_CHART_ROWS)
    named = [
        ("Updates per second", bus_courses.UPDATES_PER_S),
        ("Frames that wait", bus_courses.BACKLOG),
        ("Acknowledged after, ms", bus_courses.ACK_MS),
        *((f"{clean(one.name)}, updates behind", f"{bus_courses.BEHIND}{one.name}")
          for one in picture.backends[:1]),
    ]  # fmt: skip
    shown = [one for one in named if len(picture.bus.courses.points.get(one[1], ())) > 1]
    most = max((width + _GAP) // (_AXIS_CELLS + 2 + 28 + _GAP), 0)
    shown = shown[:most]
    if not shown or rows < _LEAST_CHART_ROWS:
        return []
    each = (width - _GAP * (len(shown) - 1)) // len(shown)
    widths = [each] * (len(shown) - 1)
    widths.append(width - sum(widths) - _GAP * len(widths))
    sides = [
        _chart(picture, title, name, cells, rows)
        for (title, name), cells in zip(shown, widths, strict=True)
    ]
    return beside(sides, widths, _GAP)


def _figures(picture: Picture) -> list[_Figure]:
    figures, courses = picture.bus, picture.bus.courses
    found: list[_Figure] = []
    for label, name in (
        ("Updates", bus_courses.UPDATES_PER_S),
        ("Frames taken", bus_courses.FRAMES_PER_S),
    ):
        if picture.is_played and name == bus_courses.FRAMES_PER_S:
            # The history does not say.
            continue
        rate = courses.now(name)
        if rate is not None and picture.ended is None:
            found.append(_Figure(label, f"{formatting.value(rate)} /s", "value", name))
    for label, reading, form, name in (
        ("Frames that wait", figures.backlog, formatting.whole, bus_courses.BACKLOG),
        ("Acknowledged after", figures.ack_latency_ms, _milliseconds, bus_courses.ACK_MS),
        ("Inside log()", figures.publish_us, formatting.short_time, bus_courses.LOG_US),
    ):
        said = reading or _announced(picture, name)
        if said is not None:
            text = reading_text(said, form(said.value))
            found.append(_Figure(label, text, reading_style(said), name))
    if math.isfinite(picture.silent_s) and not picture.is_played:
        spoke = f"{formatting.age(picture.silent_s)} ago"
        found.append(_Figure("The aggregator spoke", spoke, "value"))
    if picture.age_s is not None:
        found.append(_Figure("Newest update", f"{formatting.age(picture.age_s)} ago", "value"))
    return found


def _milliseconds(number: float) -> str:
    return f"{formatting.whole(number)} ms"


def _announced(picture: Picture, name: str) -> Reading | None:
    """What sources have said themselves, where no update says it."""
    value = picture.bus.courses.now(name) if picture.ended is None else None
    return None if value is None else Reading(value)


def _covered(picture: Picture) -> str:
    courses = picture.bus.courses
    covered_s = max((courses.covered_s(name) for name in courses.points), default=0.0)
    return f"last {time_label(covered_s)}" if covered_s >= 2 else ""


def _row(figure: _Figure, picture: Picture, width: int) -> Line:
    label_cells = max(min(width // 2, _LABEL_CELLS), 8)
    parts = [
        Segment(left(figure.label, label_cells), "label"),
        Segment(" " + right(figure.text, _VALUE_CELLS), figure.style),
    ]
    room = width - line_width(parts) - 3
    drawn = _course(picture, figure.course, room) if figure.course else ()
    return clip(line(*parts, "   ", *drawn) if drawn else line(*parts), width)


def _course(picture: Picture, name: str, cells: int) -> Line:
    """The course of a figure in one line of dots, empty before there are two points."""
    points = picture.bus.courses.points.get(name, ())
    if len(points) < 2 or cells < _COURSE_FROM:
        return ()
    is_still = max(points) - min(points) <= 0
    scale = scale_of(0.0, max(*points, 1.0))
    return curve(points, cells, 1, flat="dim", scale=None if is_still else scale)[0]


def _chart(picture: Picture, title: str, name: str, width: int, rows: int) -> Block:
    points = picture.bus.courses.points[name]
    cells, body_rows = width - _AXIS_CELLS - 2, rows - 2
    # Queues and rates are compared with nothing at all.
    fit = fitted(scale_of(0.0, max(*points, 1.0)), body_rows, _DOTS)
    body = curve(points, cells, body_rows, flat="accent", scale=fit.scale)
    labels = [fit.marks[row].label if row in fit.marks else "" for row in range(body_rows)]
    covered = time_label(picture.bus.courses.covered_s(name))
    ago = f"{covered} ago " if picture.ended is None else f"{covered} before "
    now = " now" if picture.ended is None else " the end"
    rule = "─" * max(cells - len(ago) - len(now), 0)
    return [
        heading(title, width),
        *(
            line(
                Segment(right(label, _AXIS_CELLS), "dim"),
                Segment(" ┤" if label else " │", "dim"),
                *drawn,
            )
            for label, drawn in zip(labels, body, strict=True)
        ),
        line(Segment(f"{' ' * _AXIS_CELLS} └{ago}{rule}{now}", "dim")),
    ]
