"""Which of a source's records are new: the accept rule. Pure.

Per incarnation: sequence = cursor + 1 is taken; up to the cursor is a duplicate; beyond it
the source is asked to rewind. No clock orders or deduplicates anything.
"""

from __future__ import annotations

from typing import NamedTuple

from unilab_metrics.aggregate.folding.entries import AcceptedBatch
from unilab_metrics.aggregate.folding.kept_frames import with_kept_frames
from unilab_metrics.aggregate.folding.limits import MAX_GAP_FRAMES, MAX_SEQUENCE
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.storage.records import Record, scan
from unilab_schema.codec import FrameDecodeError, RecordKind, decode_payload

SOURCE_KINDS = frozenset(kind for kind in RecordKind if kind < RecordKind.UPDATE_LAYOUT)
_ANNOUNCEMENTS = frozenset([RecordKind.LAYOUT, RecordKind.TAG_NAMES])


class Acceptance(NamedTuple):
    """What of a batch is new. ``rewind``: there is a hole after the cursor. ``is_damaged``:
    some of its bytes are no records."""

    entry: AcceptedBatch | None
    records: list[Record]
    duplicates: int
    rewind: bool
    is_damaged: bool = False


def accept(
    source: SourceState, data: bytes, watermark_mono_ns: int, *, most: int | None = None
) -> Acceptance:
    """Apply the accept rule to a batch's records. Damaged bytes end it: what follows is
    beyond the cursor, so the source rewinds and passes over what it cannot read. So does
    what follows after ``most`` records."""
    if not data:
        return Acceptance(None, [], 0, rewind=False)
    if source.beyond:
        data = with_kept_frames(source, data)
    found = scan(data, kinds=SOURCE_KINDS)
    cursor = source.cursor
    taken: list[Record] = []
    duplicates = 0
    rewind = bool(found.tail_reason)
    is_damaged = bool(found.tail_reason or found.damaged)
    for record in found.records:
        sequence = record.sequence
        if most is not None and len(taken) >= most:
            rewind = True
            break
        if sequence == cursor + 1:
            cursor = sequence
        elif sequence == 0:
            if record.kind not in _ANNOUNCEMENTS:
                continue
        elif sequence <= cursor:
            duplicates += 1
            continue
        elif record.kind == RecordKind.GAP and _covers(record, cursor + 1):
            cursor = sequence
        else:
            rewind = True
            break
        taken.append(record)
    if not taken:
        return Acceptance(None, [], duplicates, rewind, is_damaged)
    records = _bytes_of(taken, data)
    if rewind:
        # A watermark speaks of all that was sent, and a part of that was not taken.
        watermark_mono_ns = 0
    entry = AcceptedBatch(source.index, watermark_mono_ns, records)
    return Acceptance(entry, taken, duplicates, rewind, is_damaged)


def _bytes_of(taken: list[Record], data: bytes) -> bytes:
    begin, end = taken[0].start, taken[-1].end
    if sum(record.end - record.start for record in taken) == end - begin:
        return data[begin:end]
    return b"".join(data[record.start : record.end] for record in taken)


def _covers(record: Record, sequence: int) -> bool:
    """A gap's own sequence is the last one that it stands for."""
    try:
        gap = decode_payload(RecordKind.GAP, record.payload)
    except FrameDecodeError:
        return False
    if not gap.first <= sequence <= gap.last == record.sequence <= MAX_SEQUENCE:
        return False
    return gap.last - sequence < MAX_GAP_FRAMES
