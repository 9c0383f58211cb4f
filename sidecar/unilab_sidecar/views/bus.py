"""Key 5: the bus itself: what waits, what is missing, who has what. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from unilab_metrics.drop_words import trouble_words, what_dropped
from unilab_schema.canonical.bus import DROPPED_PREFIX
from unilab_sidecar.alerting.alerts import alerts
from unilab_sidecar.drawing import formatting
from unilab_sidecar.drawing.flow import flowed
from unilab_sidecar.drawing.layout import BESIDE_FROM, FRAME_CELLS, FRAME_ROWS, Screen
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
    right,
    width_of,
)
from unilab_sidecar.groups.filtering import Filter, parse_filter
from unilab_sidecar.looking.viewing import ViewState
from unilab_sidecar.panels import bus, bus_flow
from unilab_sidecar.panels.node import node
from unilab_sidecar.panels.parts import (
    columns_heading,
    heading,
)
from unilab_sidecar.picture import Picture

_GAP = 3
_NUMBER_CELLS = 12
_WRITTEN_OUT = 1_000_000_000
_WORDS_FROM = 76
_SAFE_FROM_CRASHES = " (safe from crashes)"
_SAFE_FROM_POWER_CUTS = " (rest safe from power cuts)"
_FEW_SOURCES = 8
_ALL = 20_000


def view(picture: Picture, _data: None, state: ViewState, columns: int, rows: int) -> Screen:
    """Positions and delays, then losses and troubles by reason, then every source and writer, and
    in the ``rows`` that are left charts. A filter is applied to the sources."""
    width = max(columns - FRAME_CELLS, 1)
    lines: Block = _where(picture, width)
    for alert in alerts(picture):
        lines += flowed(Segment(alert.mark, alert.style), [Segment(alert.text, alert.style)], width)
    lines += [()] if lines else []
    below: Block = []
    sides = [_positions, bus_flow.flow, _missing]
    if columns < BESIDE_FROM:
        lines += [row for side in sides for row in side(picture, width)]
        is_long = len(picture.sources) > _FEW_SOURCES
        below = [] if is_long else node(picture, width)
        lines += node(picture, width) if is_long else []
    else:
        each = (width - _GAP) // 2
        widths = [each, width - _GAP - each]
        for pair in ((_positions, bus_flow.flow), (_missing, node)):
            blocks = [side(picture, cells) for side, cells in zip(pair, widths, strict=True)]
            lines += beside(blocks, widths, _GAP)
    sources = _sources(picture, parse_filter(state.filter), width)
    lines += bus_flow.charts(picture, width, rows - FRAME_ROWS - len(lines) - len(sources))
    lines += [*sources, *below]
    if not picture.sources and not picture.backends:
        lines += flowed(None, [Segment(_nobody_says(picture), "label")], width)
    return Screen("Bus", "", [clip(parts, width) for parts in lines])


def _nobody_says(picture: Picture) -> str:
    """Why there are neither sources nor writers."""
    if picture.is_played:
        return ("A replay has no live figures of the bus: sources and writers tell of themselves "
                "while a run goes on.")  # fmt: skip
    if picture.ended is not None or picture.gone is not None:
        return "Nobody is at work any more who would tell of sources and writers."
    return ("Nobody has said anything about the bus yet: sources appear with the aggregator's "
            "first word.")  # fmt: skip


def _where(picture: Picture, width: int) -> Block:
    """Where the run lies; of a long directory its end, which tells runs apart."""
    run_dir = clean(picture.run_dir or picture.target)
    if not run_dir:
        return []
    label = Segment("run directory  " if picture.run_dir else "run  ", "label")
    on = f" on {clean(picture.host)}" if picture.host else ""
    room = max(width - width_of(label.text) - width_of(on), 8)
    shown = run_dir
    while width_of(shown) > room:
        shown = f"…{shown.removeprefix('…')[1:]}"
    return [line(label, Segment(shown, "value"), Segment(on, "dim"))]


def _positions(picture: Picture, width: int) -> Block:
    """How far each of the run's books is, in updates."""
    journal, label_cells = picture.journal, _label_cells(width)
    rows: list[Line] = []
    behind = journal.update - journal.durable
    safe = ["", ""] if width < _WORDS_FROM else [_SAFE_FROM_CRASHES, _SAFE_FROM_POWER_CUTS]
    rows.append(_position("journal", journal.update, f"the newest update{safe[0]}", "dim", width))
    note = f"{behind:,} not on disk yet{safe[1]}" if behind > 0 else "all on disk"
    rows.append(_position("on disk", journal.durable, note, "plain" if behind else "dim", width))
    old = bus.as_of(picture)
    for backend in picture.backends:
        lack = max(journal.update - backend.update, 0)
        note = f"{lack:,} behind" if lack else "up to date"
        style: Style = "warn" if backend.state == "failed" else "plain" if lack else "dim"
        said = f"{note}, {clean(backend.state)}" + (f", {old}" if old else "")
        rows.append(_position(clean(backend.name), backend.update, said, style, width))
        if backend.text:
            rows += flowed(Segment("  "), [Segment(clean(backend.text), "dim")], width)
    books: list[tuple[int, str, Style]] = [
        (journal.late_values, "late values", "warn"),
        (journal.quarantined, "quarantined", "bad"),
        (picture.bus.bad_messages, "bad messages", "warn"),
    ]
    if picture.is_played:
        # The history does not say.
        books = []
    elif not any(count for count, _, _ in books):
        said = "no late values, nothing quarantined, no bad messages"
        rows += flowed(Segment("✓ ", "good"), [Segment(said, "label")], width)
        books = []
    for count, what, urgency in books:
        rows.append(
            line(
                Segment(left(what, label_cells), "label"),
                Segment(right(f"{count:,}", _NUMBER_CELLS), urgency if count else "dim"),
            )
        )
    if journal.problem:
        rows += flowed(Segment("! ", "bad"), [Segment(clean(journal.problem), "bad")], width)
    end = label_cells + _NUMBER_CELLS
    return [columns_heading("Positions", width, [("update", end)]), *rows]


def _position(name: str, update: int, note: str, style: Style, width: int) -> Line:
    label = left(name, _label_cells(width))
    return line(
        Segment(label, "label"),
        Segment(right(f"{update:,}", _NUMBER_CELLS), "value"),
        Segment(f"  {note}", style),
    )


def _label_cells(width: int) -> int:
    return max(min(width // 4, 16), 6)


def _missing(picture: Picture, width: int) -> Block:
    """By reason, over all sources: what the run lacks, and what has cost nothing."""
    drops: dict[str, float] = {**_by_reason(source.drops for source in picture.sources)}
    lost = sum(source.lost_frames for source in picture.sources)
    drops |= {"lost frames": lost} if lost else {}
    if not picture.sources:
        drops |= {
            tag.removeprefix(DROPPED_PREFIX): reading.value
            for tag, reading in picture.readings.items()
            if tag.startswith(DROPPED_PREFIX) and reading.value >= 1
        }
    troubles = _by_reason(source.troubles for source in picture.sources)
    rows: Block = []
    for reason, count in drops.items():
        rows.append(_count(what_dropped(reason), count, "bad", width))
    for reason, count in troubles.items():
        rows.append(_count(f"{trouble_words(reason)} (cost nothing)", count, "warn", width))
    if not rows:
        rows = [line(Segment("✓ ", "good"), Segment("nothing", "label"))]
    elif picture.dropped is not None and not drops:
        rows.insert(0, line(Segment("✓ ", "good"), Segment("nothing is missing", "label")))
    return [heading("Dropped and troubles", width), *rows]


def _count(reason: str, count: float, style: Style, width: int) -> Line:
    # The tag of a count may carry anything.
    text = f"{math.floor(count):,}" if count < _WRITTEN_OUT else formatting.value(count)
    cells = max(min(width, 48) - _NUMBER_CELLS - 2, 6)
    mark = "! " if style == "bad" else "  "
    return line(
        Segment(mark, style),
        Segment(left(clean(reason), cells), "label"),
        Segment(right(text, _NUMBER_CELLS), style),
    )


def _by_reason(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in counts:
        for reason, count in one.items():
            total[reason] = total.get(reason, 0) + count
    return {reason: total[reason] for reason in sorted(total) if total[reason]}


def _sources(picture: Picture, wanted: Filter, width: int) -> Block:
    kept = tuple(
        source
        for source in picture.sources
        if wanted.passes(f"{source.key.place} {source.state} {source.host} {source.pid}")
    )
    if picture.sources and not kept:
        text = "No source passes this filter: Esc clears it."
        return [heading("Sources", width), line(Segment(text, "label"))]
    return bus.sources(replace(picture, sources=kept), width, _ALL)
