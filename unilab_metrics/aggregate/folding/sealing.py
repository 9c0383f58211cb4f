"""Sealing: an iteration's shares and reports become one update. Pure.

Order of work: over time within each source, then over ranks. The window on a screen comes
after that and is not our business.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from unilab_metrics.aggregate.folding.attendance import MAX_NAMED_RANKS, waive_missing
from unilab_metrics.aggregate.folding.bus_tags import bus_supplier, take_news
from unilab_metrics.aggregate.folding.late_reports import WHY as WHY_REPORTS
from unilab_metrics.aggregate.folding.late_reports import seal_late_reports
from unilab_metrics.aggregate.folding.merging import merged_frames
from unilab_metrics.aggregate.folding.packed import pack_values, unpack_values
from unilab_metrics.aggregate.folding.passing_over import pass_over_reports
from unilab_metrics.aggregate.folding.reduction import (
    Columns,
    Reduced,
    Supplier,
    reduce_over_ranks,
)
from unilab_metrics.aggregate.folding.remembering import (
    forgotten_through,
    missed_iteration,
    remember_latest,
    remember_layout,
    remember_nonfinite,
)
from unilab_metrics.aggregate.folding.reports import reduce_over_time
from unilab_metrics.aggregate.folding.supplements import add_missing, pieces, supplement
from unilab_metrics.aggregate.folding.window import RankShare, Window
from unilab_schema.timing import learner_phases
from unilab_schema.updates import Update

if TYPE_CHECKING:
    from unilab_metrics.aggregate.folding.entries import Seal
    from unilab_metrics.aggregate.folding.sources import SourceState
    from unilab_metrics.aggregate.folding.state import AggregatorState, Publication

Shares = Iterable[RankShare]

ITERATION_TAG = "Train/iteration"


def seal(state: AggregatorState, decision: Seal) -> list[Publication]:
    """Reduce the iteration that the decision names and publish it."""
    if decision.bus is not None:
        take_news(state, decision.bus)
    window = state.data.windows.close(decision.iteration, supplement=decision.supplement)
    if window is None:
        return seal_late_reports(state, decision) if decision.why == WHY_REPORTS else []
    shares = sorted(window.shares.values(), key=lambda s: (s.rank, s.source))
    if decision.supplement:
        return _seal_supplement(state, decision, shares)
    return _seal_iteration(state, decision, window, shares)


def _seal_iteration(
    state: AggregatorState, decision: Seal, window: Window, shares: list[RankShare]
) -> list[Publication]:
    data = state.data
    warned: list[Publication] = []
    if decision.why in ("straggler", "overflow"):
        warned = waive_missing(state, decision, shares)
    suppliers = _learner_suppliers(state, shares)
    suppliers += _collector_suppliers(state, shares)
    suppliers.sort(key=lambda s: s.rank)
    if decision.bus is not None:
        suppliers.append(bus_supplier(state, decision.bus.node))
    reduced = reduce_over_ranks(suppliers, state.columns)
    first = shares[0]
    env_steps = _env_steps(state, shares)
    elapsed_s = _elapsed_s(state, first)
    reduced = _with_iteration(state, reduced, window.iteration, env_steps)
    remember_nonfinite(state, reduced, suppliers, window.iteration)
    reported = {share.rank for share in shares}
    expected = state.ranks_expected()
    head, *rest = pieces(state, reduced)
    layout, tags = state.layouts.number(head.columns)
    data.count_sealed(window.iteration)
    data.last_iteration = window.iteration
    remember_layout(state, window.iteration, layout)
    opened = state.ensure_opened(first.unix_ns)
    update = Update(
        data.attempt,
        window.iteration,
        env_steps,
        first.unix_ns,
        decision.mono_ns,
        elapsed_s,
        len(reported),
        expected,
        layout,
        pack_values(head.values),
        tuple(islice((rank for rank in range(expected) if rank not in reported), MAX_NAMED_RANKS)),
    )
    published = state.publication(update, tags)
    remember_latest(state, head, published.sequence)
    more = [supplement(state, decision, first.unix_ns, piece) for piece in rest]
    alerts = state.alerting.take_update(reduced, suppliers, decision.mono_ns, decision.unix_ns)
    return [*warned, *opened, published, *more, *alerts]


def _seal_supplement(
    state: AggregatorState, decision: Seal, shares: list[RankShare]
) -> list[Publication]:
    data = state.data
    suppliers = _learner_suppliers(state, shares)
    reduced = reduce_over_ranks(suppliers, state.columns)
    if decision.iteration > forgotten_through(data.sealed_tags):
        # Perhaps higher ones were sealed first, at their deadline; nobody had this one by then.
        missed_iteration(state, decision.iteration)
    published, late = add_missing(state, decision, reduced, suppliers, shares[0].unix_ns)
    data.late_values += late
    for share in shares:
        source = data.sources[share.source]
        source.late_values += late
        if share.env_steps is not None:
            # Of a call that followed the one that completed the iteration.
            source.env_steps = max(share.env_steps, source.env_steps or 0)
    return published


def _learner_suppliers(state: AggregatorState, shares: list[RankShare]) -> list[Supplier]:
    """Each rank's frames of one iteration as one vector, and one more of what came reduced."""
    suppliers: list[Supplier] = []
    phases: Columns | None = None
    for share in shares:
        frames = share.frames
        if len(frames) > 1:
            frames = merged_frames(state.key_sets, frames)
        for frame in frames:
            columns, has_wall, named = state.key_set_columns.of(frame.key_set)
            totals = unpack_values(frame.values)
            weights = unpack_values(frame.weights) if frame.weights else None
            if named is not None:
                totals, weights = totals[named], None if weights is None else weights[named]
            if has_wall and phases is None:
                tags = (phase.tag for phase in learner_phases(state.data.run.algorithm))
                phases = state.columns.columns(tuple(tags))
            zero_fill = phases if has_wall else None
            suppliers.append(
                Supplier(share.rank, columns, totals, weights, zero_fill, frame.already_reduced)
            )
    return suppliers


def _collector_suppliers(state: AggregatorState, shares: list[RankShare]) -> list[Supplier]:
    stamps = {share.rank: share for share in shares}
    suppliers: list[Supplier] = []
    for source in state.others:
        if source.attempt != state.data.attempt:
            continue
        if state.data.passed_stamps:
            pass_over_reports(state, source)
        reports = source.reports
        interval_end = _interval_end(state, source, stamps)
        taken = reports.take(interval_end)
        if not taken and not _lived_through(source, interval_end):
            continue
        vector = reduce_over_time(
            taken,
            reports.held,
            state.key_sets.tags,
            lambda tag: state.columns.spec(tag).over_time,
        )
        if vector is not None:
            columns = state.columns.columns(vector.tags)
            suppliers.append(Supplier(source.rank, columns, vector.totals, vector.weights))
    return suppliers


def _lived_through(source: SourceState, interval_end: int | None) -> bool:
    """Whether a source without a report in the interval still stands by its earlier ones.

    That a source is gone is found at some time after it; only stamps tell since when.
    """
    if source.status == "live" and source.ended is None:
        return True
    if source.reports.pending:
        return True
    ended = source.ended_mono_ns
    return ended is not None and interval_end is not None and ended >= interval_end


def _interval_end(
    state: AggregatorState, source: SourceState, stamps: dict[int, RankShare]
) -> int | None:
    """Up to which stamp the source's reports count now (``None``: all that it has).

    A rank whose learner is only late keeps its reports for its own iteration. A rank without
    a publishing learner follows the lowest rank that reported.
    """
    share = stamps.get(source.rank)
    if share is None:
        own = [s for s in state.learners if s.rank == source.rank]
        if any(s.status == "live" and s.ended is None for s in own):
            return -1
        share = stamps[min(stamps)]
    learner = state.data.sources[share.source]
    if learner.identity.boot_id != source.identity.boot_id:
        return None
    return share.mono_ns


def _env_steps(state: AggregatorState, shares: list[RankShare]) -> int | None:
    """Sum of the ranks' counters, learners' else collectors'; lost ranks keep their last."""
    sources = state.data.sources
    for share in shares:
        if share.env_steps is not None:
            known = sources[share.source].env_steps
            sources[share.source].env_steps = max(share.env_steps, known or 0)
    state.data.env_steps = counted_steps(state)
    return state.data.env_steps


def counted_steps(state: AggregatorState) -> int | None:
    """Environment steps by the newest counters, also those that came too late for an update."""
    counters = _newest_counters(state, state.learners) or _newest_counters(state, state.others)
    if not counters:
        return state.data.env_steps
    return max(sum(counters), state.data.env_steps or 0)


def _newest_counters(state: AggregatorState, sources: list[SourceState]) -> list[int]:
    """Of each place of the attempt, whose process may have been started again."""
    attempt = state.data.attempt
    newest: dict[tuple[int, str, int], int] = {}
    for source in sources:
        counter = source.reports.env_steps if source.env_steps is None else source.env_steps
        if counter is not None and source.attempt == attempt:
            key = source.identity.key
            newest[key.rank, key.role, key.instance] = counter
    return list(newest.values())


def _elapsed_s(state: AggregatorState, share: RankShare) -> float:
    source = state.data.sources[share.source]
    start = source.training_mono_ns
    if start is None:
        start = source.identity.started_mono_ns
    elapsed = state.data.earlier_elapsed_s + max(share.mono_ns - start, 0) / 1e9
    state.data.elapsed_s = max(elapsed, state.data.elapsed_s)
    return state.data.elapsed_s


def _with_iteration(
    state: AggregatorState, reduced: Reduced, iteration: int, env_steps: int | None
) -> Reduced:
    """Add ``Train/iteration`` where the step axis is another one and is already counting."""
    if state.data.run.step_axis != "env_steps" or not env_steps:
        return reduced
    column = int(state.columns.columns((ITERATION_TAG,))[0])
    if column in reduced.columns:
        return reduced
    at = int(np.searchsorted(reduced.columns, column))
    return Reduced(
        np.insert(reduced.columns, at, column), np.insert(reduced.values, at, float(iteration))
    )
