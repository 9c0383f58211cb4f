"""The bus itself: sources, writers, journal, the last events. Pure."""

from __future__ import annotations

from unilab_metrics.drop_words import trouble_words
from unilab_metrics.wording import counted
from unilab_schema.control import BackendStatus, SourceStatus
from unilab_schema.identity import LEARNER, SourceKey
from unilab_sidecar.alerting.alerts import SKEW_S, is_current, is_silent
from unilab_sidecar.drawing import formatting
from unilab_sidecar.drawing.flow import flowed, spaced
from unilab_sidecar.drawing.text import (
    Block,
    Line,
    Segment,
    Style,
    clean,
    clip,
    fit,
    left,
    line,
    line_width,
    right,
    width_of,
)
from unilab_sidecar.events import note_words
from unilab_sidecar.panels.header import REFERENCES
from unilab_sidecar.panels.parts import heading
from unilab_sidecar.picture import BusFigures, Note, Picture
from unilab_sidecar.progress.source_states import MARKS
from unilab_sidecar.progress.standing import SILENT_AFTER_S, has_contact
from unilab_sidecar.values.bus_courses import has_position

_WRITER_STATES: dict[str, Style] = {"running": "good", "finished": "dim", "failed": "bad"}
_URGENCY = {"lost": 0, "gone": 0, "failed": 0, "silent": 1}
USUAL_SOURCES = 16
USUAL_EVENTS = 5
_SHOWN_RANKS = 4
_LABEL_CELLS = 13
_MIN_TEXT = 24
_TABLE_CELLS = 65
_MIN_EXTRA = 6
_FLOW_FROM = 112


def sources(picture: Picture, width: int, most: int = USUAL_SOURCES) -> Block:
    """One line per process; the ones in trouble come first and are never left out silently."""
    if not picture.sources:
        return []
    ordered = sorted(picture.sources, key=_order)
    with_host = width >= _TABLE_CELLS + 8
    with_flow = width >= _FLOW_FROM and any(source.figures for source in ordered)
    rows = [
        _source(source, width, with_host=with_host, with_flow=with_flow)
        for source in ordered[:most]
    ]
    if len(ordered) > most:
        rows.append(line(Segment(f"and {len(ordered) - most:,} more", "dim")))
    titles = (
        f"  {left('state', 9)}{left('role', 12)}{right('rank', 5)}{right('pid', 8)}"
        f"{right('age', 8)}{right('frame', 8)}{right('drops', 7)}{right('lost', 6)}"
    )
    if with_flow:
        titles += f"{right('frames', 12)}{right('wait', 8)}{right('acked', 9)}{right('log()', 9)}"
    titles += "  host" if with_host else ""
    return [
        heading("Sources", width, note=as_of(picture)),
        clip(line(Segment(titles, "dim")), width),
        *rows,
    ]


def writers(picture: Picture, width: int) -> Block:
    """Each backend's position, and the journal's."""
    journal = picture.journal
    if journal.update == 0 and not picture.backends:
        return []
    rows = [row for backend in picture.backends for row in _backend(backend, journal.update, width)]
    behind = journal.update - journal.durable
    books = [
        Segment(f"update {journal.update:,}", "value"),
        Segment(f"{behind:,} not on disk yet" if behind > 0 else "all on disk", "dim"),
    ]
    if journal.late_values:
        books.append(Segment(f"{journal.late_values:,} late", "warn"))
    if journal.quarantined:
        books.append(Segment(f"! {journal.quarantined:,} quarantined", "bad"))
    if journal.problem:
        # What it is, the header says.
        books.append(Segment("! failing", "bad"))
    rows += flowed(_label("journal"), books, width)
    if figures := _figures(picture.bus):
        rows += flowed(_label("bus"), figures, width)
    return [heading("Writers", width, note=as_of(picture)), *rows]


def as_of(picture: Picture) -> str:
    """Without an aggregator nobody knows better than at its last word, also of a run that has ended
    without anybody who says how it was left."""
    is_open = any(backend.state in ("starting", "running") for backend in picture.backends)
    is_unsaid = picture.ended is not None and is_open and picture.silent_s > SILENT_AFTER_S
    is_old = is_unsaid or not has_contact(picture)
    return f"as of {formatting.age(picture.silent_s)} ago" if is_old else ""


def events(picture: Picture, width: int, rows: int = USUAL_EVENTS) -> Block:
    """The last events in at most ``rows`` lines, newest first, if the header has not shown
    them all. Refusals, which the header names, take only the lines that others leave."""
    is_all_said = len(picture.notes) < 2 and all(is_current(n, picture) for n in picture.notes)
    if is_all_said or rows <= 0:
        return []
    room = max(rows - sum(not note.refused for note in picture.notes), min(rows, 2))
    shown: list[Note] = []
    for note in reversed(picture.notes):
        if len(shown) == rows:
            break
        if note.refused and room == 0:
            continue
        room -= note.refused
        shown.append(note)
    reference = REFERENCES[picture.note_reference]
    lines = [row for note in shown for row in _event(note, reference, width)]
    return [heading("Events", width), *lines[:rows]]


def _label(name: str) -> Segment:
    return Segment(left(clean(name), _LABEL_CELLS), "label")


def _figures(bus: BusFigures) -> list[Segment]:
    """Back-pressure: what waits, how long, what it costs the training."""
    parts: list[Segment] = []
    if bus.backlog is not None:
        parts.append(Segment(_waiting(bus.backlog.value), "value"))
    if bus.ack_latency_ms is not None:
        text = f"acked in {formatting.whole(bus.ack_latency_ms.value)} ms"
        parts.append(Segment(text, "dim"))
    if bus.publish_us is not None:
        parts.append(Segment(f"log() {formatting.short_time(bus.publish_us.value)}", "dim"))
    if bus.bad_messages:
        parts.append(Segment(counted(bus.bad_messages, "bad message"), "warn"))
    return parts


def _waiting(frames: float) -> str:
    # The mean over two seconds is no whole number.
    return "1 frame waits" if 0.5 < frames < 1.5 else f"{formatting.whole(frames)} frames wait"


def _event(note: Note, reference: str, width: int) -> Block:
    kind = note_words.kind(note)
    text = note_words.text(note, kind)
    age = Segment(f"{right(formatting.age(note.age_s), 7)} {reference}  ", "dim")
    parts: list[Segment] = []
    if text:
        parts.append(Segment(text, note_words.news_style(note)))
    if note.iteration is not None:
        parts.append(Segment(f"iter {note.iteration:,}", "dim"))
    if ranks := note_words.ranks(note, _SHOWN_RANKS):
        parts.append(Segment(ranks, "dim"))
    indent = width_of(age.text) + note_words.KIND_CELLS
    if not parts or width < indent + _MIN_TEXT:
        return [clip(line(age, Segment(kind, "label"), *spaced(parts)), width)]
    label = Segment(left(kind, note_words.KIND_CELLS), "label")
    first, *rest = flowed(Segment(" " * indent), parts, width)
    return [line(age, label, *first[1:]), *rest]


def _order(source: SourceStatus) -> tuple[int, int, bool, SourceKey]:
    return _URGENCY.get(source.state, 2), source.key.rank, source.key.role != LEARNER, source.key


def _source(source: SourceStatus, width: int, *, with_host: bool, with_flow: bool) -> Line:
    mark, style = MARKS.get(source.state, ("?", "warn"))
    key = source.key
    role = clean(key.role) + (f".{key.instance}" if key.instance else "")
    drops = sum(source.drops.values())
    age_style: Style = style if source.state != "live" else "plain"
    parts = [
        Segment(f"{mark} {left(clean(source.state), 9)}", style),
        Segment(left(role, 12), "value"),
        Segment(right(str(key.rank), 5), "value"),
        Segment(right(str(source.pid), 8), "label"),
        Segment(right(formatting.age(source.age_s), 8), age_style),
        Segment(right(formatting.age(source.frame_age_s), 8), "plain"),
        Segment(right(f"{drops:,}", 7), "bad" if drops else "dim"),
        Segment(right(f"{source.lost_frames:,}", 6), "bad" if source.lost_frames else "dim"),
    ]
    if with_flow:
        parts += _flow_of(source)
    more: list[tuple[str, Style]] = []
    if abs(source.clock_skew_s) >= SKEW_S:
        # Which clock is meant, the header says.
        more.append((f"{source.clock_skew_s:+.0f} s", "warn"))
    if source.troubles:
        # They have cost no frame.
        more.append((clean(", ".join(map(trouble_words, sorted(source.troubles)))), "warn"))
    if with_host:
        more.append((clean(source.host), "dim"))
    for text, its_style in more:
        # What is cut off here must not take the numbers before it along.
        room = width - line_width(parts) - 2
        if room >= min(width_of(text), _MIN_EXTRA):
            parts.append(Segment(f"  {fit(text, room)}", its_style))
    return clip(parts, width)


def _flow_of(source: SourceStatus) -> list[Segment]:
    """Frames that came, that wait, and how long they and the training do."""
    figures = source.figures
    waits, acked, cost = "-", "-", "-"
    if figures is not None:
        waits = f"{figures.backlog:,}"
        if figures.ack_latency_ms is not None:
            acked = f"{formatting.whole(figures.ack_latency_ms)} ms"
        if figures.log_calls:
            cost = formatting.short_time(figures.log_ns / figures.log_calls / 1e3)
    return [
        Segment(right(f"{source.cursor:,}", 12), "plain"),
        Segment(right(waits, 8), "plain" if figures and figures.backlog else "dim"),
        Segment(right(acked, 9), "plain"),
        Segment(right(cost, 9), "plain"),
    ]


def _backend(backend: BackendStatus, update: int, width: int) -> Block:
    state = Segment(clean(backend.state), _WRITER_STATES.get(backend.state, "warn"))
    if not has_position(backend):
        return flowed(_label(backend.name), [state], width)
    behind = max(update - backend.update, 0)
    parts = [
        Segment(f"update {backend.update:,}", "value"),
        Segment(f"{behind:,} behind" if behind else "up to date", "dim"),
        state,
    ]
    if is_silent(backend):
        parts.append(Segment(f"silent for {formatting.age(backend.age_s)}", "warn"))
    if backend.text and backend.state in ("running", "finished"):
        parts.append(Segment(clean(backend.text), "dim"))
    return flowed(_label(backend.name), parts, width)
