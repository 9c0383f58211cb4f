"""Folding a source's records: each is counted once, whatever it holds. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from unilab_metrics.aggregate.folding.facts import take_definition, take_summary
from unilab_metrics.aggregate.folding.limits import (
    TOO_MANY_REPORTS,
    TOO_MANY_RUN_TAGS,
    bounded_counts,
    check_numbers,
)
from unilab_metrics.aggregate.folding.merging import MOST_FRAMES, give_way, merged_frames
from unilab_metrics.aggregate.folding.passing_over import is_passed_over, is_told
from unilab_metrics.aggregate.folding.reports import (
    Report,
    flowing_values,
    reduce_over_time,
)
from unilab_metrics.aggregate.folding.sources import (
    SourceState,
    dense_key_set,
    sparse_key_set,
    take_layout,
    take_tag_names,
)
from unilab_metrics.aggregate.folding.window import RankShare, Values
from unilab_schema.codec import MAX_FRAME_BYTES, FrameDecodeError, decode_payload
from unilab_schema.frames import (
    BlobFrame,
    DefinitionFrame,
    Drops,
    End,
    EventFrame,
    Gap,
    IterationFrame,
    Layout,
    PointsFrame,
    ReportFrame,
    SpanFrame,
    SparseFrame,
    TagNames,
)
from unilab_schema.metrics import OverTime
from unilab_schema.updates import BlobUpdate, EventUpdate, PointsUpdate

if TYPE_CHECKING:
    from unilab_metrics.aggregate.folding.newest_frames import ValueFrame
    from unilab_metrics.aggregate.folding.state import AggregatorState, Publication
    from unilab_metrics.storage.records import Record

_MAX_STATUS_CHARS = 64
_MAX_FAILURE_CHARS = 400
_OWN_ACCOUNT = (Layout, TagNames, Gap, Drops, End)
"""Frames that change nothing but what is known of their source."""


def take_records(
    state: AggregatorState, source: SourceState, records: list[Record]
) -> list[Publication]:
    """Fold records that the accept rule let through; the cursor moves over every one.

    A record whose handling raises is quarantined: it stays in the wal, is counted and
    acknowledged, and changes nothing else.
    """
    published: list[Publication] = []
    for record in records:
        before = source.cursor
        if record.sequence:
            source.cursor = record.sequence
        if state.key_sets.is_full:
            state.forget_unused()
        try:
            published += _take(state, source, record, before)
        except Exception as error:  # noqa: BLE001 - one source's frame must never stop the run
            source.quarantined += 1
            state.data.quarantined += 1
            state.refusals.refused(source, record.kind, error)
    source.forget_beyond()
    return published


def _take(  # noqa: PLR0912 - one case per record kind
    state: AggregatorState, source: SourceState, record: Record, before: int
) -> list[Publication]:
    if len(record.payload) > MAX_FRAME_BYTES:
        raise FrameDecodeError("frame", f"{len(record.payload)} bytes")
    frame = decode_payload(record.kind, record.payload)
    check_numbers(frame)
    is_outside = state.data.ended is not None or source.is_double
    if is_outside and not isinstance(frame, _OWN_ACCOUNT):
        # Of an attempt that a later one has replaced (what is of this one withdraws its end), or
        # of none.
        _count_late(state, source, 1)
        return []
    if state.data.absorbed_attempt and is_told(state, source, record.sequence, frame):
        if isinstance(frame, EventFrame):
            _take_facts(state, source, frame)
        return []
    match frame:
        case IterationFrame():
            key_set = dense_key_set(source, frame.layout, len(frame.values), state.key_sets)
            _take_values(state, source, frame, frame.iteration, key_set)
        case ReportFrame():
            key_set = dense_key_set(source, frame.layout, len(frame.values), state.key_sets)
            _take_report(state, source, frame, key_set)
        case SparseFrame():
            key_set = sparse_key_set(source, frame.tags, len(frame.values), state.key_sets)
            if frame.iteration is None:
                _take_report(state, source, frame, key_set)
            else:
                _take_values(state, source, frame, frame.iteration, key_set)
        case Layout():
            take_layout(source, frame, state.key_sets, state.columns.admit)
        case TagNames():
            take_tag_names(source, frame, state.columns.admit)
        case PointsFrame():
            update = PointsUpdate(state.data.attempt, source.identity.key, frame)
            return [*state.ensure_opened(frame.points[0].unix_ns), state.publication(update)]
        case BlobFrame():
            update = BlobUpdate(state.data.attempt, source.identity.key, frame)
            return [*state.ensure_opened(frame.unix_ns), state.publication(update)]
        case EventFrame():
            return _take_event(state, source, frame)
        case DefinitionFrame():
            take_definition(state, frame.spec)
        case Gap():
            source.pass_gap(max(frame.first, before + 1), record.sequence)
            state.data.gaps += 1
        case Drops():
            source.drops = bounded_counts(frame.counts)
            source.troubles = bounded_counts(frame.troubles)
        case End():
            source.ended = frame.status[:_MAX_STATUS_CHARS]
            source.ended_mono_ns = frame.mono_ns
            source.drops = bounded_counts(frame.drops) or source.drops
            source.troubles = bounded_counts(frame.troubles) or source.troubles
        case SpanFrame():
            pass
        case _:
            raise FrameDecodeError("frame", f"kind {record.kind} does not come from a source")
    return []


def _take_values(
    state: AggregatorState,
    source: SourceState,
    frame: IterationFrame | SparseFrame,
    iteration: int,
    key_set: int,
) -> None:
    if frame.weights and len(frame.weights) != len(frame.values):
        raise FrameDecodeError("frame", "weights do not match the values")
    if not source.is_learner:
        raise FrameDecodeError("frame", f"an iteration from a {source.identity.key.role}")
    if source.unsure:
        source.settle_gaps(is_told=False)
    source.frames += 1
    source.raise_watermark(frame.mono_ns)
    if source.attempt != state.data.attempt:
        # It slept through the start of a newer attempt, which counts the same iterations again.
        _count_late(state, source, len(frame.values) // 8)
        return
    _count_nameless(state, source, key_set)
    source.last_iteration = iteration
    source.newest_stamp = (frame.mono_ns, frame.unix_ns)
    rank = source.rank
    share = RankShare(source.index, rank, frame.mono_ns, frame.unix_ns, frame.env_steps)
    values = Values(key_set, frame.values, frame.weights, frame.already_reduced)
    if frame.already_reduced and rank != 0:
        values = None
    elif (
        key_set in (kept := state.newest_frames.kept[source.index])
        and not state.recent_frames.is_kept
    ):
        kept[key_set] = frame
    else:
        _keep(state, source, key_set, frame)
    windows = state.data.windows
    is_closed = windows.is_done(source.index, iteration)
    window = windows.add(share, iteration, values, more=frame.more)
    frames = window.shares[source.index].frames
    if is_closed and values is not None and len(frames) > 1:
        _count_late(state, source, give_way(state.key_sets, frames))
    if len(frames) > MOST_FRAMES:
        windows.replace(window, source.index, merged_frames(state.key_sets, frames))


def _take_report(
    state: AggregatorState,
    source: SourceState,
    frame: ReportFrame | SparseFrame,
    key_set: int,
) -> None:
    if frame.weights and len(frame.weights) != len(frame.values):
        raise FrameDecodeError("frame", "weights do not match the values")
    if source.is_learner:
        raise FrameDecodeError("frame", "a report from a learner")
    if source.unsure:
        source.settle_gaps(is_told=is_passed_over(state, source, frame.mono_ns))
    source.frames += 1
    source.raise_watermark(frame.mono_ns)
    if source.attempt != state.data.attempt:
        _count_late(state, source, len(frame.values) // 8)
        return
    _count_nameless(state, source, key_set)
    if (
        key_set in (kept := state.newest_frames.kept[source.index])
        and not state.recent_frames.is_kept
    ):
        kept[key_set] = frame
    else:
        _keep(state, source, key_set, frame)
    reports = source.reports
    reports.add(Report(frame.mono_ns, key_set, frame.values, frame.weights, frame.env_steps))
    overflow = reports.overflow()
    if overflow:
        tags_of, over_time = state.key_sets.tags, _over_time(state)
        if flowing := flowing_values(overflow, tags_of, over_time):
            source.refuse(TOO_MANY_REPORTS, flowing)
        reduce_over_time(overflow, reports.held, tags_of, over_time)


def _keep(state: AggregatorState, source: SourceState, key_set: int, frame: ValueFrame) -> None:
    """For tables of ranks: a frame of a key set that is new, or while somebody looks at them."""
    state.newest_frames.keep(source.index, key_set, state.key_sets.tags(key_set), frame)
    if state.recent_frames.is_kept:
        state.recent_frames.add(source.index, key_set, frame)


def _over_time(state: AggregatorState) -> Callable[[str], OverTime]:
    return lambda tag: state.columns.spec(tag).over_time


def _count_nameless(state: AggregatorState, source: SourceState, key_set: int) -> None:
    if not state.columns.refused:
        return  # as in nearly every run
    nameless = state.key_sets.tags(key_set).count("")
    if nameless:
        source.refuse(TOO_MANY_RUN_TAGS, nameless)


def _count_late(state: AggregatorState, source: SourceState, values: int) -> None:
    source.late_values += values
    state.data.late_values += values


def _take_event(
    state: AggregatorState, source: SourceState, frame: EventFrame
) -> list[Publication]:
    _take_facts(state, source, frame)
    if frame.kind == "warning":
        state.data.count_warning(frame.text, frame.data)
    update = EventUpdate(state.data.attempt, source.identity.key, frame)
    return [*state.ensure_opened(frame.unix_ns), state.publication(update)]


def _take_facts(state: AggregatorState, source: SourceState, frame: EventFrame) -> None:
    if frame.kind == "training_started" and source.is_learner:
        source.training_mono_ns = frame.mono_ns
    elif frame.kind == "summary" and (source.rank == 0 or not state.data.summary):
        take_summary(state, frame.data)
    elif frame.kind == "status":
        _, is_failure, cause = frame.text.partition(f"{source.identity.key.place} failed: ")
        if is_failure:
            source.failure = cause[:_MAX_FAILURE_CHARS]
