"""A picture and a terminal's width in, the lines of the overview out. Pure.

Three tiers. Under 96 columns everything stacks, with one ``Timing`` column in which a divider
separates learner and collector rows (their percentages have different denominators), and the
diagnostics move behind the timing. From 96 columns metrics stand beside rewards and learner
beside collector; from 120 columns the system has a column of its own.
"""

from __future__ import annotations

from typing import NamedTuple

from unilab_sidecar.panels import bus, metrics, timing
from unilab_sidecar.panels.header import header, title
from unilab_sidecar.panels.parts import heading
from unilab_sidecar.panels.rewards import rewards
from unilab_sidecar.picture import Picture
from unilab_sidecar.text import Block, Segment, beside, clip, line

BESIDE_FROM = 96
SYSTEM_FROM = 120
FRAME_CELLS = 5
"""Border, margins and the scroll bar's column."""

_GAP = 3
_METRICS_CELLS = 48
_SOURCES_CELLS = 84
_WRITERS_CELLS = 47


class Screen(NamedTuple):
    """``lines`` take at most the columns inside the frame, ``title`` and ``hint`` lie on it."""

    title: str
    hint: str
    lines: Block


def layout(picture: Picture, columns: int) -> Screen:
    """The overview for a terminal of ``columns``. Never raises, whatever the size."""
    width = max(columns - FRAME_CELLS, 1)
    if columns < BESIDE_FROM:
        lines = _stacked(picture, width)
    else:
        lines = _side_by_side(picture, width, with_system=columns >= SYSTEM_FROM)
    hint = "↑ ↓ scroll · q close"
    return Screen(
        title(picture, max(columns - FRAME_CELLS - 2, 0)),
        hint if columns >= len(hint) + FRAME_CELLS + 2 else "",
        [clip(parts, width) for parts in lines],
    )


def _stacked(picture: Picture, width: int) -> Block:
    lines = header(picture, width, short=True)
    lines += metrics.losses(picture, width)
    lines += rewards(picture, width, rows=0, decimals=2)
    learner = timing.learner(picture, width)
    collector = timing.collector(picture, width)
    if learner or collector:
        lines.append(timing.timing_heading("Timing", width))
        lines += learner
        if collector:
            divider = "╌╌ collector, own clock "
            lines.append(line(Segment(divider + "╌" * max(width - len(divider), 0), "dim")))
            lines += collector
    if more := metrics.diagnostics(picture, width):
        lines += [heading("Training", width), *more]
    lines += metrics.others(picture, width)
    lines += bus.sources(picture, width)
    lines += bus.writers(picture, width)
    return lines + bus.events(picture, width)


def _side_by_side(picture: Picture, width: int, *, with_system: bool) -> Block:
    lines = header(picture, width, short=False)
    metrics_width = max(_METRICS_CELLS, (width - _GAP) * 2 // 5)
    rewards_width = width - metrics_width - _GAP
    left_block = metrics.metrics(picture, metrics_width)
    if left_block:
        rows = max(len(left_block), 5)
        right_block = rewards(picture, rewards_width, rows=rows, decimals=3)
        lines += beside([left_block, right_block], [metrics_width, rewards_width], _GAP)
    else:
        lines += rewards(picture, width, rows=8, decimals=3)
    lines += _timing(picture, width, with_system=with_system)
    lines += metrics.others(picture, width)
    if with_system:
        sources_width = min(_SOURCES_CELLS, width - _GAP - _WRITERS_CELLS)
        widths = [sources_width, width - sources_width - _GAP]
        blocks = [bus.sources(picture, widths[0]), bus.writers(picture, widths[1])]
        lines += beside(blocks, widths, _GAP)
    else:
        lines += bus.sources(picture, width) + bus.writers(picture, width)
    return lines + bus.events(picture, width)


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
