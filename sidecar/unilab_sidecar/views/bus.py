"""Key 5: the bus itself: what waits, what is missing, who has what. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from unilab_metrics.wording import counted
from unilab_schema.canonical.bus import DROPPED_PREFIX
from unilab_sidecar import formatting
from unilab_sidecar.alerts import alerts
from unilab_sidecar.filtering import Filter, parse_filter
from unilab_sidecar.flow import flowed
from unilab_sidecar.layout import BESIDE_FROM, FRAME_CELLS, Screen
from unilab_sidecar.panels import bus
from unilab_sidecar.panels.parts import Cell, heading, reading_style, reading_text
from unilab_sidecar.picture import Picture
from unilab_sidecar.text import Block, Line, Segment, Style, beside, clean, clip, left, line, right
from unilab_sidecar.viewing import ViewState

_GAP = 3
_NUMBER_CELLS = 12
_ALL = 20_000


def view(picture: Picture, _data: None, state: ViewState, columns: int, _rows: int) -> Screen:
    """Positions and delays, then losses and troubles by reason, then every source and writer. A
    filter is applied to the sources."""
    width = max(columns - FRAME_CELLS, 1)
    lines: Block = []
    for alert in alerts(picture):
        lines += flowed(Segment("! ", alert.style), [Segment(alert.text, alert.style)], width)
    lines += [()] if lines else []
    sides = [_positions, _delays, _missing]
    if columns < BESIDE_FROM:
        lines += [row for side in sides for row in side(picture, width)]
    else:
        each = (width - _GAP) // 2
        widths = [each, width - _GAP - each]
        right_side = _delays(picture, widths[1]) + _missing(picture, widths[1])
        lines += beside([_positions(picture, widths[0]), right_side], widths, _GAP)
    lines += _sources(picture, parse_filter(state.filter), width)
    if not picture.sources and not picture.backends:
        lines.append(
            line(Segment("Nobody has said anything about the bus yet: sources appear with "
                         "the aggregator's first word.", "label"))
        )  # fmt: skip
    return Screen("Bus", "", [clip(parts, width) for parts in lines])


def _positions(picture: Picture, width: int) -> Block:
    """How far each of the run's books is, in updates."""
    journal = picture.journal
    rows: list[Line] = []
    behind = journal.update - journal.durable
    rows.append(_position("journal", journal.update, "the newest update", "dim", width))
    said = "not on disk yet" if behind > 0 else "all on disk"
    note = f"{behind:,} {said}" if behind > 0 else said
    rows.append(_position("on disk", journal.durable, note, "plain" if behind else "dim", width))
    for backend in picture.backends:
        lack = max(journal.update - backend.update, 0)
        note = f"{lack:,} behind" if lack else "up to date"
        style: Style = "warn" if backend.state == "failed" else "plain" if lack else "dim"
        said = f"{note}, {clean(backend.state)}"
        rows.append(_position(clean(backend.name), backend.update, said, style, width))
        if backend.text:
            rows += flowed(Segment("  "), [Segment(clean(backend.text), "dim")], width)
    books: list[tuple[int, str, Style]] = [
        (journal.late_values, "late value", "warn"),
        (journal.quarantined, "frame", "bad"),
        (picture.bus.bad_messages, "bad message", "warn"),
    ]
    for count, what, urgency in books:
        name = counted(count, what)
        words = f"{name} quarantined" if what == "frame" else name
        rows.append(line(Segment(f"  {words}", urgency if count else "dim")))
    if journal.problem:
        rows += flowed(Segment("! ", "bad"), [Segment(clean(journal.problem), "bad")], width)
    return [heading("Positions", width, note="update"), *rows]


def _position(name: str, update: int, note: str, style: Style, width: int) -> Line:
    label = left(name, max(min(width // 3, 16), 6))
    return line(
        Segment(label, "label"),
        Segment(right(f"{update:,}", _NUMBER_CELLS), "value"),
        Segment(f"  {note}", style),
    )


def _delays(picture: Picture, width: int) -> Block:
    figures = picture.bus
    shown = (
        ("Frames that wait", figures.backlog, formatting.whole, ""),
        ("Acknowledged after", figures.ack_latency_ms, formatting.whole, " ms"),
        ("Inside log()", figures.publish_us, formatting.whole, " us"),
    )
    cells = [
        Cell(label, reading_text(reading, f"{form(reading.value)}{unit}"), reading_style(reading))
        for label, reading, form, unit in shown
        if reading is not None
    ]
    if picture.silent_s < float("inf"):
        spoke = f"{formatting.age(picture.silent_s)} ago"
        cells.append(Cell("The aggregator spoke", spoke))
    if picture.age_s is not None:
        cells.append(Cell("Newest update", f"{formatting.age(picture.age_s)} ago"))
    rows = [_figure(cell, width) for cell in cells]
    if not rows:
        rows = [line(Segment("nobody says", "dim"))]
    return [heading("Queues and delays", width), *rows]


def _figure(cell: Cell, width: int) -> Line:
    label = left(cell.label, max(min(width // 2, 22), 8))
    return line(Segment(label, "label"), Segment(f"  {cell.text}", cell.style))


def _missing(picture: Picture, width: int) -> Block:
    """By reason, over all sources: what the run lacks, and what has cost nothing."""
    drops = _by_reason(source.drops for source in picture.sources)
    lost = sum(source.lost_frames for source in picture.sources)
    drops |= {"lost frames": lost} if lost else {}
    if not picture.sources:
        drops |= {
            tag.removeprefix(DROPPED_PREFIX): int(reading.value)
            for tag, reading in picture.readings.items()
            if tag.startswith(DROPPED_PREFIX) and reading.value >= 1
        }
    troubles = _by_reason(source.troubles for source in picture.sources)
    rows: Block = []
    for reason, count in drops.items():
        rows.append(_count(reason, count, "bad", width))
    for reason, count in troubles.items():
        rows.append(_count(f"{reason} (cost nothing)", count, "warn", width))
    if not rows:
        rows = [line(Segment("✓ ", "good"), Segment("nothing", "label"))]
    elif picture.dropped is not None and not drops:
        rows.insert(0, line(Segment("✓ ", "good"), Segment("nothing is missing", "label")))
    return [heading("Dropped and troubles", width), *rows]


def _count(reason: str, count: int, style: Style, width: int) -> Line:
    cells = max(min(width, 48) - _NUMBER_CELLS - 2, 6)
    mark = "! " if style == "bad" else "  "
    return line(
        Segment(mark, style),
        Segment(left(clean(reason).replace("_", " "), cells), "label"),
        Segment(right(f"{count:,}", _NUMBER_CELLS), style),
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
