"""Which learner ranks an attempt has, which it lacks, and what they disagree about. Pure.

A learner that survives the start of a newer attempt may be a rank that goes on, or one that
is on its way out while its successor starts. So it is neither waited for nor counted until it
reports, and gives way to a process of the new attempt that claims its place.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from unilab_metrics.aggregate.folding.run_data import RunData
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_schema.identity import Identity

if TYPE_CHECKING:
    from unilab_metrics.aggregate.folding.entries import Seal, SourceGone
    from unilab_metrics.aggregate.folding.state import AggregatorState, Publication
    from unilab_metrics.aggregate.folding.window import RankShare

MAX_NAMED_RANKS = 64
REPLACED = frozenset(["superseded", "double"])
"""How a source can be gone whose place another process has."""


def joined_ranks(data: RunData) -> set[int]:
    """Learner ranks that came in this attempt, lost ones included, survivors of an earlier
    attempt not. Nor one of a start whose rank 0 has never come, and whose rest lies here."""
    joined = [s for s in data.sources if s.is_learner and s.joined == data.attempt]
    zero = next((s.identity for s in reversed(joined) if s.rank == 0), None)
    return {s.rank for s in joined if zero is None or not was_over(s, zero)}


def was_over(source: SourceState, identity: Identity) -> bool:
    """Whether a source was gone already when another process was started, by their common clock."""
    is_at_work = source.status == "live" and source.ended is None
    if is_at_work or source.identity.boot_id != identity.boot_id:
        return False
    stamps = source.identity.started_mono_ns, source.watermark_mono_ns, source.ended_mono_ns or 0
    return max(stamps) < identity.started_mono_ns


def absent_ranks(data: RunData) -> list[int]:
    """Expected learner ranks of which no process takes part in this attempt, nor has done so."""
    there = {s.rank for s in data.sources if s.is_learner and s.attempt == data.attempt}
    return [rank for rank in range(data.expected_learners) if rank not in there]


def words_on_absent(data: RunData) -> str:
    """What is to be told of expected ranks when the attempt ends without them; empty if nothing is,
    or if it was said when the iterations went on."""
    absent = absent_ranks(data)
    # Without any learner nobody has said how many there are.
    if len(absent) <= data.waived or len(absent) == data.expected_learners:
        return ""
    named = ", ".join(str(rank) for rank in absent[:MAX_NAMED_RANKS])
    return (
        f"{len(absent)} of {data.expected_learners} expected ranks were not heard ({named}); what "
        "they have logged waits in their spools for the next attempt, or for `recover`"
    )


def missing_learners(data: RunData, reported: Iterable[int] = ()) -> int:
    """How many expected learner ranks have not come. ``reported``: sources of an iteration,
    whose ranks are there, survivors or not."""
    return max(data.expected_learners - len(_present(data, reported)), 0)


def is_everyone_done(
    state: AggregatorState, iteration: int, excused: AbstractSet[int] = frozenset()
) -> bool:
    """Whether no learner rank that is waited for has more to send for the iteration.
    ``excused``: sources that are not."""
    data = state.data
    window = data.windows.open.get(iteration)
    reported = window.shares.keys() if window is not None else frozenset[int]()
    for source in state.live_learners():
        if data.windows.is_done(source.index, iteration) or source.index in excused:
            continue
        if source.joined == data.attempt or source.index in reported:
            return False
    # Almost always all have reported, which is seen without looking at every source.
    awaited = data.expected_learners - data.waived
    return len(_ranks(data, reported)) >= awaited or missing_learners(data, reported) <= data.waived


def waive_missing(
    state: AggregatorState, decision: Seal, shares: list[RankShare]
) -> list[Publication]:
    """From now on, ranks that have not come are not waited for; says so once."""
    data = state.data
    reported = [share.source for share in shares]
    missing = missing_learners(data, reported)
    if missing <= data.waived:
        return []
    data.waived = missing
    present = _present(data, reported)
    absent = [rank for rank in range(data.expected_learners) if rank not in present]
    named = ", ".join(str(rank) for rank in absent[:MAX_NAMED_RANKS])
    text = (
        f"{missing} of {data.expected_learners} expected ranks have not come ({named}); "
        "iterations go on without them"
    )
    opened = state.ensure_opened(shares[0].unix_ns)
    return [*opened, state.own_event("warning", text, decision.mono_ns, decision.unix_ns)]


def stay_outside(data: RunData, source: SourceState) -> list[Publication]:
    """It comes only to leave what it has logged."""
    source.status = "lost"
    source.attempt = source.joined = data.attempt - 1
    return []


def come_back(data: RunData, source: SourceState) -> None:
    """It was not lost; or it was a double, and has the place from now on."""
    source.status, source.ending = "live", ""
    if source.is_double:
        source.is_double = False
        source.attempt = source.joined = data.attempt


def leave_out(state: AggregatorState, source: SourceState, gone: SourceGone) -> list[Publication]:
    """Another process has the source's place: what it says, and what of it is in no update yet,
    is late."""
    data = state.data
    source.is_double = gone.how == "double"
    newest = 0 if source.is_double else min(source.joined, data.attempt - 1)
    source.attempt = source.joined = newest
    late = data.windows.forget(source.index)
    source.late_values += late
    data.late_values += late
    if not gone.text:
        return []
    if data.ended is not None:
        # Nothing that is only told follows the end.
        data.count_warning(gone.text, {})
        return []
    return [state.own_event("warning", gone.text, gone.mono_ns, gone.unix_ns)]


def doubts_of_world(state: AggregatorState, joined: SourceState) -> list[Publication]:
    """Warnings about learners of the attempt that know of another number of ranks than rank 0.
    ``joined``: the one that has just come."""
    zero = state.learner_zero()
    if zero is None or zero.attempt != state.data.attempt:
        return []
    world_size = zero.identity.run.world_size
    others = state.live_learners() if joined is zero else [joined]
    return [
        state.own_event(
            "warning",
            f"{other.name} was started for a world of {other.identity.run.world_size} ranks, "
            f"rank 0 for one of {world_size}",
            joined.identity.started_mono_ns,
            joined.identity.started_unix_ns,
        )
        for other in others
        if other.joined == zero.joined and other.identity.run.world_size != world_size
    ]


def _present(data: RunData, reported: Iterable[int]) -> set[int]:
    return joined_ranks(data) | _ranks(data, reported)


def _ranks(data: RunData, sources: Iterable[int]) -> set[int]:
    return {data.sources[source].rank for source in sources}
