"""Reports of sealed iterations that no later iteration takes in: seen at the end. Pure.

While a run goes on, a report that comes too late for its iteration goes into the next one. At
the end there is no next one; what the last iteration lacks is added to it. Reports stamped after
the last iteration belong to one that never came, and are of no number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from unilab_metrics.aggregate.folding.reduction import Supplier, reduce_over_ranks
from unilab_metrics.aggregate.folding.reports import Held, Report, reduce_over_time
from unilab_metrics.aggregate.folding.supplements import add_missing

if TYPE_CHECKING:
    from unilab_metrics.aggregate.folding.entries import Seal
    from unilab_metrics.aggregate.folding.sources import SourceState
    from unilab_metrics.aggregate.folding.state import AggregatorState, Publication

WHY = "reports"
"""The reason in the decision that seals them."""


def has_late_reports(state: AggregatorState) -> bool:
    """Whether a report waits whose iteration is sealed. Windows must be closed already."""
    return next(_late(state), None) is not None


def seal_late_reports(state: AggregatorState, decision: Seal) -> list[Publication]:
    """Reduce them over time and ranks, and publish what the last iteration lacks."""
    suppliers: list[Supplier] = []
    sources: list[SourceState] = []
    unix_ns = decision.unix_ns
    for source, learner in list(_late(state)):
        until_mono_ns, unix_ns = learner.newest_stamp
        held = Held()
        vector = reduce_over_time(
            source.reports.take(until_mono_ns),
            held,
            state.key_sets.tags,
            lambda tag: state.columns.spec(tag).over_time,
        )
        source.reports.held.states.update(held.states)
        if vector is not None:
            columns = state.columns.columns(vector.tags)
            suppliers.append(Supplier(source.rank, columns, vector.totals, vector.weights))
            sources.append(source)
    suppliers.sort(key=lambda supplier: supplier.rank)
    reduced = reduce_over_ranks(suppliers, state.columns)
    published, late = add_missing(state, decision, reduced, suppliers, unix_ns)
    state.data.late_values += late
    for source in sources:
        source.late_values += late
    return published


def _late(state: AggregatorState) -> Iterator[tuple[SourceState, SourceState]]:
    """Sources with such reports, and the learner whose iterations they follow."""
    data = state.data
    if data.last_iteration is None:
        return
    for source in data.sources:
        if source.is_learner or source.attempt != data.attempt or not source.reports.pending:
            continue
        learner = _learner_of(state, source)
        first: Report = source.reports.pending[0]
        if learner is not None and first.mono_ns <= learner.newest_stamp[0]:
            yield source, learner


def _learner_of(state: AggregatorState, source: SourceState) -> SourceState | None:
    """The newest of its rank, else of the lowest rank, on the same clock."""
    boot_id, attempt = source.identity.boot_id, state.data.attempt
    found = [
        s
        for s in state.data.sources
        if s.is_learner
        and s.attempt == attempt
        and s.identity.boot_id == boot_id
        and s.newest_stamp[0]
    ]
    own = [s for s in found if s.rank == source.rank]
    if own:
        return own[-1]
    return min(found, key=lambda s: s.rank, default=None)
