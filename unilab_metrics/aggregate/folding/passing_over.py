"""What a source sends again of which the history has it already, after a wal was lost. Pure.

``SourceState.told_through`` says up to which sequence its records had been in the wal; everything
of them but what waited for its iteration is in the history. ``RunData.told_entries`` are the
contents of events whose sequences nobody knows.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from unilab_metrics.aggregate.folding.reports import reduce_over_time
from unilab_schema.codec import encode_payload
from unilab_schema.frames import BlobFrame, EventFrame, IterationFrame, PointsFrame, SparseFrame

if TYPE_CHECKING:
    from unilab_metrics.aggregate.folding.run_data import RunData
    from unilab_metrics.aggregate.folding.sources import SourceState
    from unilab_metrics.aggregate.folding.state import AggregatorState
    from unilab_schema.identity import SourceKey
    from unilab_schema.updates import BlobUpdate, EventUpdate, PointsUpdate

MAX_TOLD = 16_384
"""Contents that are remembered, the newest."""
_DIGEST_BYTES = 12


def remember_told(data: RunData, entry: EventUpdate | PointsUpdate | BlobUpdate) -> None:
    """The history has it, whatever its source sends again."""
    if entry.source is None:
        return
    digest = _digest(entry.source, entry.frame)
    data.told_entries[digest] = data.told_entries.get(digest, 0) + 1
    if len(data.told_entries) > MAX_TOLD:
        del data.told_entries[next(iter(data.told_entries))]


def is_told(state: AggregatorState, source: SourceState, sequence: int, frame: object) -> bool:
    """Whether the history has what a record would give it."""
    data = state.data
    was_in_wal = 0 < sequence <= source.told_through
    if isinstance(frame, EventFrame | PointsFrame | BlobFrame):
        if was_in_wal:
            return True
        return bool(data.told_entries) and _is_known(data, source, frame)
    return source.is_learner and _is_sealed(state, source, frame, was_in_wal=was_in_wal)


def _is_sealed(
    state: AggregatorState, source: SourceState, frame: object, *, was_in_wal: bool
) -> bool:
    data = state.data
    if source.attempt < data.absorbed_attempt:
        # All that was open was sealed before the next attempt began.
        is_in = was_in_wal and isinstance(frame, IterationFrame | SparseFrame)
        source.settle_gaps(is_told=True)
        return is_in
    if not isinstance(frame, IterationFrame | SparseFrame) or frame.iteration is None:
        return False
    last = data.windows.last_sealed
    if data.absorbed_attempt != data.attempt or last is None or frame.iteration > last:
        return False
    if source.attempt != data.attempt:
        return False
    data.passed_stamps[source.rank] = (source.index, frame.mono_ns)
    if not was_in_wal:
        return False
    source.settle_gaps(is_told=True)
    source.raise_watermark(frame.mono_ns)
    source.last_iteration = max(source.last_iteration or frame.iteration, frame.iteration)
    source.newest_stamp = max(source.newest_stamp, (frame.mono_ns, frame.unix_ns))
    if frame.env_steps is not None:
        source.env_steps = max(frame.env_steps, source.env_steps or 0)
    return True


def is_back(data: RunData, source: SourceState) -> bool:
    """Whether a source that joins had been here before the wal was lost; it goes on there."""
    told = data.told.pop(source.identity.incarnation.hex(), None)
    if told is not None:
        # Its events are in the history also when it comes only in a later attempt.
        source.told_through = told[0]
    if data.absorbed_attempt != data.attempt:
        return False
    if told is not None:
        source.attempt = source.joined = min(told[1], data.attempt)
    return told is not None or source.identity.started_unix_ns == data.opened_unix_ns


def is_passed_over(state: AggregatorState, source: SourceState, mono_ns: int) -> bool:
    """Whether a report with this stamp was of an iteration that the history has."""
    learner, stamp = state.data.passed_stamps.get(source.rank, (0, -1))
    if mono_ns > stamp:
        return False
    return state.data.sources[learner].identity.boot_id == source.identity.boot_id


def pass_over_reports(state: AggregatorState, source: SourceState) -> None:
    """Reports of iterations that were sealed before the wal was lost enter no other; what they
    say that holds goes on holding."""
    passed = state.data.passed_stamps.get(source.rank)
    if passed is None:
        return
    learner, stamp = passed
    if state.data.sources[learner].identity.boot_id == source.identity.boot_id:
        taken = source.reports.take(stamp)
        reduce_over_time(
            taken,
            source.reports.held,
            state.key_sets.tags,
            lambda tag: state.columns.spec(tag).over_time,
        )


def _is_known(
    data: RunData, source: SourceState, frame: EventFrame | PointsFrame | BlobFrame
) -> bool:
    digest = _digest(source.identity.key, frame)
    count = data.told_entries.get(digest, 0)
    if count > 1:
        data.told_entries[digest] = count - 1
    elif count:
        del data.told_entries[digest]
    return bool(count)


def _digest(key: SourceKey, frame: EventFrame | PointsFrame | BlobFrame) -> str:
    data = encode_payload(frame) + f"{key.role}/{key.rank}/{key.instance}".encode()
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()
