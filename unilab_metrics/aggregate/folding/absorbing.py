"""What the history tells a state whose wal is lost or damaged. Pure.

The history holds every sealed iteration and every event, so that nothing of it is sealed or told
again and the numbers go on behind it. It does not hold what waited for its iteration, and not how
far each source had come; where that is known from elsewhere, what a source sends again is passed
over as far as the history has it. Where it is not, events are known again by their content, and
values of sealed iterations are late.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from unilab_metrics.aggregate.folding.entries import OpenAttempt
from unilab_metrics.aggregate.folding.facts import take_summary
from unilab_metrics.aggregate.folding.packed import unpack_values
from unilab_metrics.aggregate.folding.passing_over import remember_told
from unilab_metrics.aggregate.folding.reduction import Reduced
from unilab_metrics.aggregate.folding.remembering import (
    forgotten_through,
    missed_iteration,
    remember_latest,
    remember_layout,
    remember_nonfinite,
)
from unilab_schema.alerts import ALERT, ALERT_OVER
from unilab_schema.updates import (
    AttemptOpened,
    BlobUpdate,
    EventUpdate,
    HistoryEntry,
    PointsUpdate,
    RunEnded,
    Supplement,
    Update,
    UpdateLayout,
)

if TYPE_CHECKING:
    from unilab_metrics.aggregate.folding.beyond_damage import BeyondDamage
    from unilab_metrics.aggregate.folding.state import AggregatorState, Publication


def absorb(
    state: AggregatorState,
    sequence: int,
    entry: HistoryEntry,
    tags: tuple[str, ...],
    durable_update: int,
) -> None:
    """Take in an entry of the history, which the fold may or may not have given. In order.
    ``durable_update``: the newest update that the known cursors account for."""
    data = state.data
    if isinstance(entry, UpdateLayout) or entry.attempt < data.attempt:
        return
    is_new = sequence >= data.next_update
    data.next_update = max(data.next_update, sequence + 1)
    if entry.attempt > data.attempt:
        state.handle(OpenAttempt(entry.attempt, 0))
    if sequence > durable_update and isinstance(entry, EventUpdate | PointsUpdate | BlobUpdate):
        remember_told(data, entry)
    if is_new and data.ended is not None and not isinstance(entry, RunEnded):
        data.ended, data.ended_text, data.ended_unix_ns = None, "", 0
    match entry:
        case AttemptOpened():
            data.run, data.earlier_elapsed_s = entry.run, entry.elapsed_s
            data.opened, data.opened_unix_ns = True, entry.unix_ns
        case Update():
            _take_update(state, sequence, entry, tags, is_new=is_new)
        case Supplement():
            _take_supplement(state, sequence, entry, tags)
        case EventUpdate():
            if is_new:
                _take_event(state, sequence, entry)
        case RunEnded():
            data.ended, data.ended_text = entry.status, entry.text
            data.ended_unix_ns = entry.unix_ns
        case _:
            pass


def finish_absorbing(
    state: AggregatorState,
    cursors: Iterable[tuple[bytes, int, int]],
    fault: str,
    beyond: BeyondDamage | None = None,
) -> list[Publication]:
    """After the last entry. ``cursors``: incarnation, cursor and attempt of sources, as far as
    they are known. ``fault``: what was lost, for the summary. ``beyond``: what the wal still has
    behind the damage. Returns what the history gains by it."""
    data = state.data
    data.absorbed_attempt = data.attempt
    data.sealed_tags = dict(sorted(data.sealed_tags.items()))
    for incarnation, cursor, attempt in cursors:
        before, _ = data.told.get(incarnation.hex(), (0, 0))
        data.told[incarnation.hex()] = (max(before, cursor), attempt)
    if data.warnings.get(fault) is None:
        data.count_warning(fault, {})
    for source in data.sources:
        cursor, _ = data.told.pop(source.identity.incarnation.hex(), (0, 0))
        source.told_through = max(source.told_through, cursor)
    gone = {source.index for source in data.sources if source.status != "live"}
    published = [] if beyond is None else beyond.apply(state)
    for source in data.sources:
        if data.ended is None and source.index not in gone:
            continue
        # Who was gone had left nothing that was not taken in.
        source.cursor = max(source.cursor, source.told_through)
        source.forget_beyond()
        if source.status == "live":
            source.status, source.ended = "finished", source.ended or data.ended
    return published


def _take_update(
    state: AggregatorState, sequence: int, entry: Update, tags: tuple[str, ...], *, is_new: bool
) -> None:
    data = state.data
    data.opened = True
    window = data.windows.close(entry.iteration, supplement=False)
    for share in () if window is None else window.shares.values():
        data.passed_stamps[share.rank] = (share.source, share.mono_ns)
    data.elapsed_s = max(data.elapsed_s, entry.elapsed_s)
    if entry.env_steps is not None:
        data.env_steps = max(data.env_steps or 0, entry.env_steps)
    data.expected_learners = max(data.expected_learners, entry.ranks_expected)
    reduced = reduced_of(state, entry.values, tags)
    remember_nonfinite(state, reduced, [], entry.iteration)
    remember_latest(state, reduced, sequence)
    is_forgotten = not is_new and entry.iteration <= forgotten_through(data.sealed_tags)
    if is_forgotten or entry.iteration in data.sealed_tags:
        return
    layout, _ = state.layouts.number(reduced.columns)
    data.count_sealed(entry.iteration)
    data.last_iteration = max(data.last_iteration or 0, entry.iteration)
    remember_layout(state, entry.iteration, layout)


def _take_supplement(
    state: AggregatorState, sequence: int, entry: Supplement, tags: tuple[str, ...]
) -> None:
    state.data.windows.close(entry.iteration, supplement=True)
    reduced = reduced_of(state, entry.values, tags)
    remember_nonfinite(state, reduced, [], entry.iteration)
    remember_latest(state, reduced, sequence)
    missed_iteration(state, entry.iteration)
    layout, _ = state.layouts.number(reduced.columns)
    layouts = state.data.sealed_tags.get(entry.iteration)
    if layouts is not None and layout not in layouts:
        layouts.append(layout)


def _take_event(state: AggregatorState, sequence: int, entry: EventUpdate) -> None:
    frame = entry.frame
    if entry.source is None and frame.kind in (ALERT, ALERT_OVER):
        state.alerting.adopt(sequence, frame)
    if frame.kind == "warning":
        state.data.count_warning(frame.text, frame.data)
    elif frame.kind == "summary" and (_is_of_rank_zero(entry) or not state.data.summary):
        take_summary(state, frame.data)


def _is_of_rank_zero(entry: EventUpdate) -> bool:
    return entry.source is not None and entry.source.rank == 0


def reduced_of(state: AggregatorState, values: bytes, tags: tuple[str, ...]) -> Reduced:
    """Values of the history in the order of the state's columns."""
    columns = state.columns.columns(tags)
    order = np.argsort(columns, kind="stable")
    return Reduced(columns[order], unpack_values(values)[order])
