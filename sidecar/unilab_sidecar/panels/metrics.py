"""Losses and policy state, training diagnostics, replay ingress, everything else. Pure."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from unilab_sidecar.charting.small_curve import curve
from unilab_sidecar.drawing.lines_on_demand import joined
from unilab_sidecar.drawing.text import Block, Lines, Segment, left, line, right, width_of
from unilab_sidecar.groups.metric_group import group_of
from unilab_sidecar.panels.metric_grid import metric_grid, metric_grids
from unilab_sidecar.panels.parts import GAP, VALUE_CELLS, heading, metric_cell, subheading
from unilab_sidecar.picture import Picture

USUAL_OTHERS = 24
_COURSE_GAP = 3
_MOST_WITH_COURSES = 250
"""Lines of the panel: no screen is higher."""
_LEAST_COURSE_CELLS, _MOST_COURSE_CELLS = 12, 48


def losses(picture: Picture, width: int) -> Lines:
    """Losses, and in rows of their own below them the policy's state, with short labels."""
    rows = joined(*metric_grids([picture.losses, picture.policy], width))
    return joined([heading("Losses and policy", width)], rows) if rows else []


def diagnostics(picture: Picture, width: int) -> Lines:
    """Training diagnostics, then ingress gauges, indented; never among the losses."""
    return joined(*metric_grids([picture.diagnostics, picture.ingress], width, indent=2))


def metrics(picture: Picture, width: int) -> Lines:
    """The whole panel, for screens that have it beside the rewards."""
    rows = losses(picture, width)
    if more := diagnostics(picture, width):
        title = subheading("Training") if rows else heading("Training", width)
        rows = joined(rows, [title], more)
    return rows


def height_with_courses(picture: Picture, height: int) -> int:
    """The lines of :func:`with_courses`, where it has room beside."""
    of_losses = len(picture.losses) + len(picture.policy)
    of_training = len(picture.diagnostics) + len(picture.ingress)
    return (of_losses + of_training) * height + bool(of_losses) + bool(of_training)


def with_courses(
    picture: Picture, width: int, height: int = 1, *, most_cells: int = _MOST_COURSE_CELLS
) -> Block:
    """The whole panel with ``height`` rows per metric and its course beside it; empty without room
    for one, without metrics or with very many. As high whatever has come of the courses."""
    if height_with_courses(picture, height) > _MOST_WITH_COURSES:
        return []
    of_losses = [*picture.losses, *picture.policy]
    of_training = [*picture.diagnostics, *picture.ingress]
    rows = [(metric, metric_cell(metric), "") for metric in of_losses]
    rows += [(metric, metric_cell(metric), "  ") for metric in of_training]
    if not rows:
        return []
    labels = max(width_of(indent + cell.label) for _, cell, indent in rows)
    values = max(VALUE_CELLS, *(cell.cells for _, cell, _ in rows))
    room = min(width - labels - values - 1 - _COURSE_GAP, most_cells)
    if room < _LEAST_COURSE_CELLS:
        return []
    lines: Block = []
    for metric, cell, indent in rows:
        name = Segment(left(indent + cell.label, labels), "label")
        number = Segment(f" {right(cell.text, values)}", cell.style)
        drawn = _course(picture.courses.get(metric.tag, ()), room, height)
        blank = Segment(" " * (labels + values + 1))
        lines.append(line(name, number, " " * _COURSE_GAP, *drawn[0]))
        lines += [line(blank, " " * _COURSE_GAP, *row) for row in drawn[1:]]
    note = _since(picture)
    split = len(of_losses) * height
    above = [heading("Losses and policy", width, note=note), *lines[:split]] if split else []
    if not of_training:
        return above
    title = subheading("Training") if split else heading("Training", width, note=note)
    return [*above, title, *lines[split:]]


def with_loss_courses(picture: Picture, width: int) -> Lines:
    """The panel with the courses of losses and policy only, and training diagnostics in columns:
    no higher than without any on a narrower screen. Empty without room for a course."""
    above = with_courses(replace(picture, diagnostics=(), ingress=()), width)
    below = diagnostics(picture, width)
    if not above or not below:
        return above
    return joined(above, [subheading("Training")], below)


@lru_cache(maxsize=256)
def _course(values: tuple[float, ...], cells: int, height: int) -> Block:
    # What never changes is to be seen to do so, but not before the others.
    return curve(values, cells, height, flat="dim") if len(values) > 1 else [()] * height


def others_with_courses(picture: Picture, width: int, most: int | None = USUAL_OTHERS) -> Block:
    """The same in as many columns as have room for each one's course beside it; empty without room
    for one, without any and with very many."""
    every = group_of(picture.others)
    shown = every if most is None else every.first(most)
    if not 0 < len(shown) <= len(every) <= _MOST_WITH_COURSES:
        return []
    cells = [(metric, metric_cell(metric)) for metric in shown]
    labels = max(width_of(cell.label) for _, cell in cells)
    values = max(VALUE_CELLS, *(cell.cells for _, cell in cells))
    least = labels + values + 1 + _COURSE_GAP + _LEAST_COURSE_CELLS
    columns = min((width + GAP) // (least + GAP), len(cells))
    if columns < 1:
        return []
    each = (width + GAP) // columns - GAP
    room = min(each - least + _LEAST_COURSE_CELLS, _MOST_COURSE_CELLS)
    lines: Block = []
    for first in range(0, len(cells), columns):
        parts: list[Segment | str] = []
        for at, (metric, cell) in enumerate(cells[first : first + columns]):
            drawn = _course(picture.courses.get(metric.tag, ()), room, 1)[0]
            if parts:
                parts.append(" " * (at * (each + GAP) - sum(map(_cells_of, parts))))
            parts.append(Segment(left(cell.label, labels), "label"))
            parts += [Segment(f" {right(cell.text, values)}", cell.style), " " * _COURSE_GAP]
            parts += drawn
        lines.append(line(*parts))
    return [
        heading("Other metrics", width, note=_since(picture)),
        *lines,
        *_more(len(every), len(shown)),
    ]


def others(picture: Picture, width: int, most: int | None = USUAL_OTHERS) -> Lines:
    """Tags outside the table, by their whole names; beyond ``most`` they are counted."""
    every = group_of(picture.others)
    if not every:
        return []
    shown = every if most is None else every.first(most)
    more = _more(len(every), len(shown))
    return joined([heading("Other metrics", width)], metric_grid(shown, width), more)


def _since(picture: Picture) -> str:
    """Where the courses begin."""
    since = picture.courses_from
    return "" if since is None or not picture.courses else f"since iter {since:,}"


def _cells_of(part: Segment | str) -> int:
    return width_of(part if isinstance(part, str) else part.text)


def _more(every: int, shown: int) -> Block:
    words = f"and {every - shown:,} more; / filters them"
    return [line(Segment(words, "dim"))] if every > shown else []
