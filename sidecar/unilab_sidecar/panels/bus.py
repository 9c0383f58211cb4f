"""The bus itself: sources, writers, journal, the last events. Pure."""

from __future__ import annotations

from unilab_metrics.wording import counted
from unilab_schema.control import BackendStatus, SourceStatus
from unilab_schema.identity import LEARNER, SourceKey
from unilab_sidecar import formatting
from unilab_sidecar.alerts import SKEW_S, is_current, is_silent
from unilab_sidecar.flow import flowed, spaced
from unilab_sidecar.panels.header import REFERENCES
from unilab_sidecar.panels.parts import heading
from unilab_sidecar.picture import BusFigures, Note, Picture
from unilab_sidecar.standing import has_contact
from unilab_sidecar.text import (
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

_STATES: dict[str, tuple[str, Style]] = {
    "live": ("●", "good"),
    "awaited": ("◌", "accent"),
    "silent": ("○", "warn"),
    "finished": ("✓", "dim"),
    "lost": ("✗", "bad"),
    "gone": ("✗", "bad"),
}
_WRITER_STATES: dict[str, Style] = {"running": "good", "finished": "dim", "failed": "bad"}
_URGENCY = {"lost": 0, "gone": 0, "silent": 1}
USUAL_SOURCES = 16
USUAL_EVENTS = 5
_SHOWN_RANKS = 4
_LABEL_CELLS = 13
_KIND_CELLS = 18
_MIN_TEXT = 24
_TABLE_CELLS = 65
_MIN_EXTRA = 6


def sources(picture: Picture, width: int, most: int = USUAL_SOURCES) -> Block:
    """One line per process; the ones in trouble come first and are never left out silently."""
    if not picture.sources:
        return []
    ordered = sorted(picture.sources, key=_order)
    with_host = width >= _TABLE_CELLS + 8
    rows = [_source(source, width, with_host=with_host) for source in ordered[:most]]
    if len(ordered) > most:
        rows.append(line(Segment(f"and {len(ordered) - most:,} more", "dim")))
    titles = (
        f"  {left('state', 9)}{left('role', 12)}{right('rank', 5)}{right('pid', 8)}"
        f"{right('age', 8)}{right('frame', 8)}{right('drops', 7)}{right('lost', 6)}"
    ) + ("  host" if with_host else "")
    return [
        heading("Sources", width, note=_as_of(picture)),
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
    return [heading("Writers", width, note=_as_of(picture)), *rows]


def _as_of(picture: Picture) -> str:
    """Without an aggregator nobody knows better than at its last word."""
    return "" if has_contact(picture) else f"as of {formatting.age(picture.silent_s)} ago"


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
        parts.append(Segment(f"log() {formatting.whole(bus.publish_us.value)} us", "dim"))
    if bus.bad_messages:
        parts.append(Segment(counted(bus.bad_messages, "bad message"), "warn"))
    return parts


def _waiting(frames: float) -> str:
    # The mean over two seconds is no whole number.
    return "1 frame waits" if round(frames) == 1 else f"{formatting.whole(frames)} frames wait"


def _event(note: Note, reference: str, width: int) -> Block:
    kind = "refused" if note.refused else clean(note.kind).replace("_", " ")
    text = clean(note.text)
    # What happened is said once: most texts begin with the word for it.
    if text.startswith(kind):
        text = text[len(kind) :].lstrip(" :")
    age = Segment(f"{right(formatting.age(note.age_s), 7)} {reference}  ", "dim")
    parts: list[Segment] = []
    if text:
        parts.append(Segment(text, "warn" if note.kind in ("warning", "lost") else "plain"))
    if note.iteration is not None:
        parts.append(Segment(f"iter {note.iteration}", "dim"))
    if note.ranks not in ((), (0,)):
        ranks = ", ".join(map(str, note.ranks[:_SHOWN_RANKS]))
        more = ", …" if len(note.ranks) > _SHOWN_RANKS else ""
        parts.append(Segment(f"rank{'s' * (len(note.ranks) > 1)} {ranks}{more}", "dim"))
    indent = width_of(age.text) + _KIND_CELLS
    if not parts or width < indent + _MIN_TEXT:
        return [clip(line(age, Segment(kind, "label"), *spaced(parts)), width)]
    label = Segment(left(kind, _KIND_CELLS), "label")
    first, *rest = flowed(Segment(" " * indent), parts, width)
    return [line(age, label, *first[1:]), *rest]


def _order(source: SourceStatus) -> tuple[int, int, bool, SourceKey]:
    return _URGENCY.get(source.state, 2), source.key.rank, source.key.role != LEARNER, source.key


def _source(source: SourceStatus, width: int, *, with_host: bool) -> Line:
    mark, style = _STATES.get(source.state, ("?", "warn"))
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
    more: list[tuple[str, Style]] = []
    if abs(source.clock_skew_s) >= SKEW_S:
        # Which clock is meant, the header says.
        more.append((f"{source.clock_skew_s:+.0f} s", "warn"))
    if source.troubles:
        # They have cost no frame.
        more.append((clean(", ".join(sorted(source.troubles))), "warn"))
    if with_host:
        more.append((clean(source.host), "dim"))
    for text, its_style in more:
        # What is cut off here must not take the numbers before it along.
        room = width - line_width(parts) - 2
        if room >= min(width_of(text), _MIN_EXTRA):
            parts.append(Segment(f"  {fit(text, room)}", its_style))
    return clip(parts, width)


def _backend(backend: BackendStatus, update: int, width: int) -> Block:
    behind = max(update - backend.update, 0)
    parts = [
        Segment(f"update {backend.update:,}", "value"),
        Segment(f"{behind:,} behind" if behind else "up to date", "dim"),
        Segment(clean(backend.state), _WRITER_STATES.get(backend.state, "warn")),
    ]
    if is_silent(backend):
        parts.append(Segment(f"silent for {formatting.age(backend.age_s)}", "warn"))
    if backend.text and backend.state in ("running", "finished"):
        parts.append(Segment(clean(backend.text), "dim"))
    return flowed(_label(backend.name), parts, width)
