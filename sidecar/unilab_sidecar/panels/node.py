"""The node under the run: its GPUs, processors and memory. Pure.

What is absent (no GPU, no driver, a sensor that a model lacks) takes no place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from unilab_schema.canonical.node import (
    CPU,
    CPU_QUOTA,
    GPU_UTIL,
    MEMORY_TOTAL,
    MEMORY_USED,
    POWER,
    TEMPERATURE,
    read_node_tag,
)
from unilab_sidecar.drawing import formatting
from unilab_sidecar.drawing.text import Block, Segment, clip, left, line, width_of
from unilab_sidecar.panels.parts import Cell, heading, reading_style, reading_text
from unilab_sidecar.picture import Picture, Reading

MOST_GPUS = 4
"""As many have a row each beside other things; more are told together."""
_GIB = 2.0**30
_LABEL_CELLS = 8
_WRITTEN_OUT = 1e6

_Figures = dict[str, Reading]


class _Place(NamedTuple):
    """A node, or with ``gpu`` one of its GPUs."""

    node: int
    gpu: str


def node_cells(picture: Picture, width: int) -> list[Cell]:
    """GPUs, then CPU and memory, for a column of ``width`` cells."""
    places = _places(picture)
    gpus = [place for place in places if place.gpu]
    cells: list[Cell] = []
    if len(gpus) <= MOST_GPUS:
        for place in gpus:
            label = _label(place, places)
            room = max(width - width_of(label) - 2, 0)
            cells.append(_cell(label, places[place], _gpu(places[place]), room))
    else:
        cells += _together([places[place] for place in gpus], len(gpus))
    for place, figures in places.items():
        if not place.gpu:
            of = _of_node(place, places)
            cells += [_cell(of + label, figures, [text]) for label, text in _node(figures)]
    return cells


def node(picture: Picture, width: int) -> Block:
    """Every GPU on a line, CPU and memory on one, with a heading; nothing where nobody says it."""
    places = _places(picture)
    if not places:
        return []
    rows: list[tuple[str, Cell]] = []
    for place, figures in places.items():
        if place.gpu:
            label = _label(place, places)
            parts = _gpu(figures)
        else:
            pairs = _node(figures)
            label = _of_node(place, places) + (pairs[0][0] if pairs else "")
            parts = [pairs[0][1], *(f"{name} {text}" for name, text in pairs[1:])] if pairs else []
        rows.append((label, _cell(label, figures, parts)))
    cells = max(_LABEL_CELLS, *(width_of(label) + 2 for label, _ in rows))
    return [
        heading("Node", width),
        *(
            clip(line(Segment(left(label, cells), "label"), Segment(cell.text, cell.style)), width)
            for label, cell in rows
        ),
    ]


def _places(picture: Picture) -> dict[_Place, _Figures]:
    """GPUs of each node in their order, then the node itself."""
    found: dict[_Place, _Figures] = {}
    for metric in picture.node:
        if (tag := read_node_tag(metric.tag)) is not None:
            found.setdefault(_Place(tag.node, tag.gpu), {})[tag.figure] = metric.reading
    return {place: found[place] for place in sorted(found, key=_order)}


def _order(place: _Place) -> tuple[int, bool, tuple[int, ...], str]:
    numbers = tuple(int(part) for part in place.gpu.split(":") if part.isdecimal())
    return place.node, not place.gpu, numbers, place.gpu


def _of_node(place: _Place, places: Iterable[_Place]) -> str:
    """Which node, where there are several."""
    return f"node {place.node} " if len({other.node for other in places}) > 1 else ""


def _label(place: _Place, places: Iterable[_Place]) -> str:
    return f"{_of_node(place, places)}GPU {place.gpu}"


def _gpu(figures: _Figures) -> list[str]:
    """From what people look for first to what gives way first."""
    parts: list[str] = []
    if (util := figures.get(GPU_UTIL)) is not None:
        parts.append(_percent(util.value))
    if (memory := _memory([figures])) is not None:
        parts.append(memory)
    if (heat := figures.get(TEMPERATURE)) is not None:
        parts.append(f"{formatting.whole(heat.value)} °C")
    if (power := figures.get(POWER)) is not None:
        parts.append(f"{formatting.whole(power.value)} W")
    return parts


def _node(figures: _Figures) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    if (cpu := figures.get(CPU)) is not None:
        quota = figures.get(CPU_QUOTA)
        of = "" if quota is None else f" of {quota.value:.3g}"
        pairs.append(("CPU", _percent(cpu.value) + of))
    if (memory := _memory([figures])) is not None:
        pairs.append(("Memory", memory))
    return pairs


def _together(gpus: Sequence[_Figures], count: int) -> list[Cell]:
    figures = {str(place): one for place, gpu in enumerate(gpus) for one in gpu.values()}
    at_work = [gpu[GPU_UTIL].value for gpu in gpus if GPU_UTIL in gpu]
    heat = [gpu[TEMPERATURE].value for gpu in gpus if TEMPERATURE in gpu]
    cells: list[Cell] = []
    if at_work:
        low, high = _number(min(at_work)), _percent(max(at_work))
        cells.append(_cell(f"{count} GPUs", figures, [f"{low} to {high}"]))
    if (memory := _memory(gpus)) is not None:
        cells.append(_cell("GPU Memory", figures, [memory]))
    if heat:
        low, high = formatting.whole(min(heat)), formatting.whole(max(heat))
        cells.append(_cell("GPU Heat", figures, [f"{low} to {high} °C"]))
    return cells


def _memory(places: Sequence[_Figures]) -> str | None:
    """Used of total."""
    # Shares first: a sum of bytes may be beyond a float.
    used = [figures[MEMORY_USED].value / _GIB for figures in places if MEMORY_USED in figures]
    total = [figures[MEMORY_TOTAL].value / _GIB for figures in places if MEMORY_TOTAL in figures]
    if not used or not total:
        return None
    whole = sum(total)
    return f"{_number(sum(used), 1)}/{_number(whole, 1 if whole < 10 else 0)} GiB"


def _cell(label: str, figures: _Figures, parts: Sequence[str], room: int | None = None) -> Cell:
    """``room``: what does not fit gives way, from the end."""
    ages = [one.stale_s for one in figures.values() if one.stale_s is not None]
    reading = Reading(0.0, max(ages) if ages else None)
    for kept in range(len(parts), 1, -1):
        text = reading_text(reading, "  ".join(parts[:kept]))
        if room is None or width_of(text) <= room:
            return Cell(label, text, reading_style(reading))
    return Cell(label, reading_text(reading, "".join(parts[:1])), reading_style(reading))


def _percent(value: float) -> str:
    return f"{_number(value)} %"


def _number(value: float, decimals: int = 0) -> str:
    return f"{value:.{decimals}f}" if abs(value) < _WRITTEN_OUT else formatting.value(value)
