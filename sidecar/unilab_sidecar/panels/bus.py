"""The bus itself: sources, writers, journal, the last events. Pure."""

from __future__ import annotations

from unilab_schema.control import BackendStatus, SourceStatus
from unilab_schema.identity import LEARNER, SourceKey
from unilab_sidecar import formatting
from unilab_sidecar.panels.header import REFERENCES, has_contact
from unilab_sidecar.panels.parts import heading
from unilab_sidecar.picture import BusFigures, Note, Picture
from unilab_sidecar.text import Block, Line, Segment, Style, clean, clip, left, line, right

_STATES: dict[str, tuple[str, Style]] = {
    "live": ("●", "good"),
    "awaited": ("◌", "accent"),
    "silent": ("○", "warn"),
    "finished": ("✓", "dim"),
    "lost": ("✗", "bad"),
}
_WRITER_STATES: dict[str, Style] = {"running": "good", "finished": "dim", "failed": "bad"}
_URGENCY = {"lost": 0, "silent": 1}
_MAX_SOURCES = 16
USUAL_EVENTS = 5
_SHOWN_RANKS = 4
_SKEW_S = 1.0
_SILENT_S = 5.0
"""A writer reports once a second."""
_TABLE_CELLS = 65


def sources(picture: Picture, width: int) -> Block:
    """One line per process; the ones in trouble come first and are never left out silently."""
    if not picture.sources:
        return []
    ordered = sorted(picture.sources, key=_order)
    with_host = width >= _TABLE_CELLS + 8
    rows = [clip(_source(source, with_host=with_host), width) for source in ordered[:_MAX_SOURCES]]
    if len(ordered) > _MAX_SOURCES:
        rows.append(line(Segment(f"and {len(ordered) - _MAX_SOURCES:,} more", "dim")))
    titles = (
        f"  {left('state', 9)}{left('role', 12)}{right('rank', 5)}{right('pid', 8)}"
        f"{right('age', 8)}{right('frame', 8)}{right('drops', 7)}{right('lost', 6)}"
    ) + ("  host" if with_host else "")
    # Without an aggregator nobody knows better than at its last word.
    as_of = "" if has_contact(picture) else f"as of {formatting.age(picture.silent_s)} ago"
    return [
        heading("Sources", width, note=as_of),
        clip(line(Segment(titles, "dim")), width),
        *rows,
    ]


def writers(picture: Picture, width: int) -> Block:
    """Each backend's position, and the journal's."""
    journal = picture.journal
    if journal.update == 0 and not picture.backends:
        return []
    rows = [clip(_backend(backend, journal.update), width) for backend in picture.backends]
    behind = journal.update - journal.durable
    books = [
        Segment(left("journal", 13), "label"),
        Segment(f"update {journal.update:,}", "value"),
        Segment(f"  {behind:,} not on disk yet" if behind > 0 else "  all on disk", "dim"),
    ]
    if journal.late_values:
        books.append(Segment(f"  {journal.late_values:,} late", "warn"))
    if journal.quarantined:
        books.append(Segment(f"  ! {journal.quarantined:,} quarantined", "bad"))
    trouble = [clip(line(Segment(f"! {clean(journal.problem)}", "bad")), width)]
    rows += [clip(line(*books), width), *(trouble if journal.problem else [])]
    if figures := _figures(picture.bus):
        rows.append(clip(line(Segment(left("bus", 13), "label"), *figures), width))
    return [heading("Writers", width), *rows]


def events(picture: Picture, width: int, rows: int = USUAL_EVENTS) -> Block:
    """The last events in at most ``rows`` lines, newest first, if the header has not shown
    them all. Refusals, which the header names, take only the lines that others leave."""
    if len(picture.notes) < 2 or rows <= 0:
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
    return [heading("Events", width), *(clip(_event(note, reference), width) for note in shown)]


def _figures(bus: BusFigures) -> list[Segment]:
    """Back-pressure: what waits, how long, what it costs the training."""
    parts: list[Segment] = []
    if bus.backlog is not None:
        parts.append(Segment(f"{formatting.whole(bus.backlog.value)} frames wait", "value"))
    if bus.ack_latency_ms is not None:
        text = f"  acked in {formatting.whole(bus.ack_latency_ms.value)} ms"
        parts.append(Segment(text, "dim"))
    if bus.publish_us is not None:
        text = f"  log() {formatting.whole(bus.publish_us.value)} us"
        parts.append(Segment(text, "dim"))
    if bus.bad_messages:
        parts.append(Segment(f"  {bus.bad_messages:,} bad messages", "warn"))
    return parts


def _event(note: Note, reference: str) -> Line:
    kind = "refused" if note.refused else clean(note.kind).replace("_", " ")
    text = clean(note.text)
    # What happened is said once: most texts begin with the word for it.
    if text.startswith(kind):
        text = text[len(kind) :].lstrip(" :")
    parts = [
        Segment(f"{right(formatting.age(note.age_s), 7)} {reference}  ", "dim"),
        Segment(left(kind, 18) if text else kind, "label"),
        Segment(text, "warn" if note.kind == "warning" else "plain"),
    ]
    if note.iteration is not None:
        parts.append(Segment(f"  iter {note.iteration}", "dim"))
    if note.ranks not in ((), (0,)):
        ranks = ", ".join(map(str, note.ranks[:_SHOWN_RANKS]))
        more = ", …" if len(note.ranks) > _SHOWN_RANKS else ""
        parts.append(Segment(f"  rank{'s' * (len(note.ranks) > 1)} {ranks}{more}", "dim"))
    return line(*parts)


def _order(source: SourceStatus) -> tuple[int, int, bool, SourceKey]:
    return _URGENCY.get(source.state, 2), source.key.rank, source.key.role != LEARNER, source.key


def _source(source: SourceStatus, *, with_host: bool) -> Line:
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
        Segment(f"  {clean(source.host)}" if with_host else "", "dim"),
    ]
    if abs(source.clock_skew_s) >= _SKEW_S:
        parts.append(Segment(f"  clock {source.clock_skew_s:+.0f} s", "warn"))
    return line(*parts)


def _backend(backend: BackendStatus, update: int) -> Line:
    behind = max(update - backend.update, 0)
    style = _WRITER_STATES.get(backend.state, "warn")
    is_over = backend.state in ("finished", "failed")
    is_silent = backend.age_s is not None and backend.age_s > _SILENT_S and not is_over
    return line(
        Segment(left(clean(backend.name), 13), "label"),
        Segment(f"update {backend.update:,}", "value"),
        Segment(f"  {behind:,} behind" if behind else "  up to date", "dim"),
        Segment(f"  {clean(backend.state)}", style),
        Segment(f"  silent for {formatting.age(backend.age_s)}" if is_silent else "", "warn"),
        Segment(f"  {clean(backend.text)}" if backend.text else "", "dim"),
    )
