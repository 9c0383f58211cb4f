"""Which attempt a process belongs to that is heard of late, from its stamps. Pure.

Stamps are compared on one boot's monotonic clock only; of processes on different clocks nothing
is concluded.
"""

from __future__ import annotations

from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.folding.state import AggregatorState
from unilab_schema.identity import LEARNER, Identity


def started_before(zero: SourceState, identity: Identity) -> bool:
    """Whether an incarnation of rank 0 came before the one that is known."""
    same_clock = identity.boot_id == zero.identity.boot_id
    return same_clock and identity.started_mono_ns < zero.identity.started_mono_ns


def began_before_the_end(zero: SourceState, identity: Identity) -> bool:
    """Whether a process was started while rank 0, which has ended in order, was at work."""
    ended = zero.ended_mono_ns
    same_clock = identity.boot_id == zero.identity.boot_id
    return ended is not None and same_clock and identity.started_mono_ns < ended


def replaces_a_lost_one(zero: SourceState, occupant: SourceState, identity: Identity) -> bool:
    """Whether a process takes the place of one that said no goodbye, and was started while rank
    0, after its own, still waited for the others. One that comes after a goodbye may be the next
    attempt's, also then: a training that goes on in the same processes opens it when rank 0 has
    waited."""
    is_lost = occupant.status == "lost" and occupant.ended is None
    same_clock = identity.boot_id == zero.identity.boot_id
    has_waited = zero.ended is not None and identity.started_mono_ns < zero.watermark_mono_ns
    return is_lost and same_clock and has_waited


def is_of_the_next_attempt(zero: SourceState, identity: Identity) -> bool:
    """Whether a process whose rank 0 is dead was started together with the next one."""
    if is_of_another_world(zero, identity):
        return True
    same_clock = identity.boot_id == zero.identity.boot_id
    return same_clock and identity.started_mono_ns > zero.watermark_mono_ns > 0


def is_of_another_world(zero: SourceState, identity: Identity) -> bool:
    """Whether a learner was started with another number of ranks than rank 0."""
    is_learner = identity.key.role == LEARNER
    return is_learner and identity.run.world_size != zero.identity.run.world_size


def was_double(occupant: SourceState, identity: Identity) -> bool:
    """Whether another process claimed the place while the occupant, which has ended in order,
    was at work in it."""
    ended = occupant.ended_mono_ns
    same_clock = identity.boot_id == occupant.identity.boot_id
    own = occupant.identity
    is_other = (identity.pid, identity.pid_space) != (own.pid, own.pid_space)
    return ended is not None and same_clock and is_other and identity.started_mono_ns < ended


def has_a_successor(state: AggregatorState, identity: Identity) -> bool:
    """Whether a dead process of another node than rank 0's is of an earlier attempt, as far as
    can be known there: who has its place in this one was started after it."""
    key = identity.key
    zero, occupant = state.learner_zero(), state.occupant(key.rank, key.role, key.instance)
    if zero is None or occupant is None or zero.identity.boot_id == identity.boot_id:
        return False
    is_present = occupant.joined == state.data.attempt > 1
    return is_present and started_before(occupant, identity)


def is_of_an_earlier_attempt(state: AggregatorState, identity: Identity, last_mono_ns: int) -> bool:
    """Whether a dead process belongs to an attempt that another one has followed. It was started
    while that one's rank 0 was at work; or it was over before the present rank 0 was started,
    and was itself started nearer to the earlier one: an attempt's processes are started together.
    ``last_mono_ns``: its newest stamp, 0 if it has left none."""
    earlier = [
        zero
        for zero in state.data.sources
        if zero.is_learner
        and zero.rank == 0
        and zero.joined < state.data.attempt
        and not zero.is_double
        and zero.identity.boot_id == identity.boot_id
    ]
    started = identity.started_mono_ns
    if any(started <= max(zero.watermark_mono_ns, zero.ended_mono_ns or 0) for zero in earlier):
        return True
    present = state.learner_zero()
    if present is None or present.identity.boot_id != identity.boot_id:
        return False
    until_present = present.identity.started_mono_ns - started
    was_over = max(started, last_mono_ns) < present.identity.started_mono_ns
    return was_over and any(
        started - zero.identity.started_mono_ns < until_present for zero in earlier
    )
