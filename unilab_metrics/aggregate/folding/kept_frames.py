"""Frames that a damaged wal still has behind a hole: taken when it is clear what the hole costs.

A source's records are folded in order. So those behind a hole wait in ``SourceState.beyond`` until
the source has sent again what was in it, or says by a gap that it no longer can. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unilab_metrics.aggregate.folding.frame_intake import take_records
from unilab_metrics.storage.records import Record, encode_record, scan
from unilab_schema.codec import FrameDecodeError, RecordKind, decode_payload, encode_payload
from unilab_schema.frames import Gap, IterationFrame, SparseFrame

if TYPE_CHECKING:
    from unilab_metrics.aggregate.folding.sources import SourceState
    from unilab_metrics.aggregate.folding.state import AggregatorState, Publication

HOLE_REASON = "damaged in the journal, and no longer in the spool"


def with_kept_frames(source: SourceState, data: bytes) -> bytes:
    """A batch of the source in which the gaps no longer stand for what is kept. Bytes that cannot
    be read are left to whoever accepts it."""
    found = scan(data)
    if found.damaged or found.tail_reason:
        return data
    records = found.records
    pieces: list[bytes] = []
    cursor = source.cursor
    at = 0
    while at < len(records):
        record = records[at]
        at += 1
        gap = gap_of(record)
        if gap is None or not gap.first <= cursor + 1 <= gap.last == record.sequence:
            pieces.append(data[record.start : record.end])
            cursor = max(cursor, record.sequence)
            continue
        announced: list[bytes] = []
        while at < len(records) and not records[at].sequence:
            announced.append(data[records[at].start : records[at].end])
            at += 1
        pieces.append(kept_between(source, cursor + 1, gap.last, gap.reason, announced))
        cursor = gap.last
    return b"".join(pieces)


def all_kept(source: SourceState, through: int = 0) -> bytes:
    """Everything that is kept of the source, and gaps for the rest of what had been in the wal, at
    least ``through`` that sequence: nothing more will come of it."""
    last = max(source.beyond_last, through)
    if last <= source.cursor:
        return b""
    return kept_between(source, source.cursor + 1, last, HOLE_REASON)


def kept_between(
    source: SourceState, first: int, last: int, reason: str, announced: list[bytes] | None = None
) -> bytes:
    """What is kept of ``first`` to ``last``, and gaps for the rest, behind the first of which
    what is ``announced`` follows. ``reason``: of what nobody has kept anything after."""
    waiting = announced or []
    pieces: list[bytes] = []
    reached = first - 1
    for record in scan(source.beyond).records:
        if record.sequence > last:
            break
        if 0 < record.sequence <= reached:
            continue
        gap = gap_of(record)
        begins = record.sequence if gap is None else max(gap.first, reached + 1)
        if not record.sequence:
            begins = reached + 1
        if begins > reached + 1:
            pieces += [gap_record(reached + 1, begins - 1, HOLE_REASON), *waiting]
            waiting = []
        pieces.append(source.beyond[record.start : record.end])
        reached = max(reached, record.sequence)
    if reached < last:
        pieces += [gap_record(reached + 1, last, reason), *waiting]
        waiting = []
    return b"".join([*waiting, *pieces])


def last_of(data: bytes) -> int:
    """The highest sequence; 0 without one."""
    return max((record.sequence for record in scan(data).records), default=0)


def first_of(data: bytes) -> int:
    """The first sequence that a record stands for; 0 without one."""
    for record in scan(data).records:
        if record.sequence:
            gap = gap_of(record)
            return record.sequence if gap is None else gap.first
    return 0


def gap_of(record: Record) -> Gap | None:
    """What a gap record says; ``None`` for other records and for nonsense."""
    if record.kind != RecordKind.GAP:
        return None
    try:
        gap: Gap = decode_payload(record.kind, record.payload)
    except FrameDecodeError:
        return None
    return gap if gap.first <= gap.last == record.sequence else None


def gap_record(first: int, last: int, reason: str) -> bytes:
    """A record that stands for sequences that nobody can read any more."""
    return encode_record(RecordKind.GAP, last, encode_payload(Gap(first, last, reason)))


def take_in_order(
    state: AggregatorState, source: SourceState, data: bytes
) -> tuple[list[Publication], bool]:
    """Fold what follows the cursor. The second is whether there is a hole before the rest."""
    published: list[Publication] = []
    taken: list[Record] = []
    cursor = source.cursor

    def take() -> None:
        nonlocal published
        if taken:
            published += take_records(state, source, taken)
            taken.clear()

    for record in scan(data).records:
        gap = gap_of(record)
        begins = record.sequence if gap is None else gap.first
        if 0 < record.sequence <= cursor:
            continue
        if begins > cursor + 1:
            take()
            return published, True
        if gap is None:
            taken.append(record)
        else:
            # It was counted as lost when it was new.
            take()
            source.lost_frames += gap.last - cursor
            state.data.gaps += 1
            source.cursor = gap.last
        cursor = max(cursor, record.sequence)
    take()
    return published, False


def newest_sealed(state: AggregatorState, source: SourceState, data: bytes) -> int:
    """The stamp of the newest frame of a sealed iteration that was in the wal; 0 without one."""
    for record in reversed(scan(data).records):
        if not 0 < record.sequence <= source.told_through:
            continue
        if record.kind not in (RecordKind.ITERATION, RecordKind.SPARSE):
            continue
        try:
            frame: IterationFrame | SparseFrame = decode_payload(record.kind, record.payload)
        except FrameDecodeError:
            continue
        if frame.iteration is not None and state.data.windows.is_sealed(frame.iteration):
            return frame.mono_ns
    return 0
