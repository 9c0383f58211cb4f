"""Which of two processes in one place is the second, and what becomes of it. Pure.

One that began while the other was at work is none of the run's: it is refused, and what it leaves
is journaled and counted as late. A collector, or another rank than 0, that is still there when the
other one has ended takes its place from then on: it was started as a replacement. One that began
after the other's last word takes its place when that is known to be dead, as every restart does.
"""

from __future__ import annotations

from collections.abc import Callable

from unilab_metrics.aggregate.folding.entries import SourceGone, SourceJoined
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.folding.state import AggregatorState
from unilab_schema.control import Hello, Reject
from unilab_schema.identity import LEARNER, Identity

AtWork = Callable[[SourceState, Identity], bool]
"""Whether a source has said something of its own after another process began."""

_FATE = "what this one logs enters no numbers and will count as late"
_FATE_UNTIL = "what this one logs until that has ended enters no numbers and will count as late"
_RETRY_S = 0.5


def was_at_work(source: SourceState, identity: Identity) -> bool:
    """As :data:`AtWork`, by the stamps that are in the journal."""
    same_clock = source.identity.boot_id == identity.boot_id
    return same_clock and identity.started_mono_ns < last_word_mono_ns(source)


def last_word_mono_ns(source: SourceState) -> int:
    """Its goodbye, or the newest of its frames that enters numbers; of its own clock. Not its
    watermark: who sends what a dead process left says that nothing more will come."""
    ended = source.ended_mono_ns
    return source.newest_stamp[0] if ended is None else ended


def is_same_process(source: SourceState, identity: Identity) -> bool:
    """A process that opens the run once more knows itself what it does."""
    own = source.identity
    return (own.boot_id, own.pid_space, own.pid) == (
        identity.boot_id,
        identity.pid_space,
        identity.pid,
    )


def is_double(
    state: AggregatorState,
    occupant: SourceState,
    hello: Hello,
    at_work: AtWork,
    *,
    is_orphan: bool,
) -> bool:
    """Whether ``occupant``, which has the place, and rank 0 were at work when a process began.
    Without rank 0's word it may belong to the next attempt. ``is_orphan``: it is dead."""
    identity, attempt = hello.identity, state.data.attempt
    zero = state.learner_zero()
    if zero is None or zero.attempt != attempt or occupant.joined != attempt:
        return False
    if is_same_process(occupant, identity):
        return False
    began_ns = occupant.identity.started_mono_ns
    if is_orphan and max(identity.started_mono_ns, hello.mono_ns) <= began_ns:
        # It was over before the other one began.
        return False
    is_gone = occupant.status != "live" or occupant.ended is not None
    same_clock = occupant.identity.boot_id == identity.boot_id
    if is_gone and not is_orphan and same_clock and identity.started_mono_ns < began_ns:
        # It was the first, and is the only one.
        return False
    return at_work(occupant, identity) and (zero is occupant or at_work(zero, identity))


def lived_within(state: AggregatorState, occupant: SourceState, hello: Hello) -> bool:
    """Whether a dead process of this node was there only while ``occupant``, which lives, was."""
    identity, own = hello.identity, occupant.identity
    if hello.adopted or occupant.joined != state.data.attempt:
        return False
    same_clock = own.boot_id == identity.boot_id
    is_other = not is_same_process(occupant, identity)
    return same_clock and is_other and identity.started_mono_ns > own.started_mono_ns


def turned_away(
    state: AggregatorState, identity: Identity, occupant: SourceState, *, is_told: bool
) -> tuple[SourceJoined, SourceGone]:
    """The decision, as entries: it holds for every later aggregator too. ``is_told``: that the
    process is refused, in another way."""
    joined = SourceJoined(len(state.data.sources), identity, is_late=True)
    text = (
        f"pid {identity.pid} on {identity.host} claimed the place of {occupant.name} while that "
        "was at work; what it has said is counted as late"
    )
    started = identity.started_unix_ns, identity.started_mono_ns
    return joined, SourceGone(joined.source, "double", *started, "" if is_told else text)


def refusal(state: AggregatorState, occupant: SourceState | None, identity: Identity) -> Reject:
    """For the second process, while it lives. ``occupant``: who has the place."""
    who = "another process" if occupant is None else f"the {occupant.name}"
    may_wait = may_wait_for_place(state, occupant, identity)
    fate = _FATE_UNTIL if may_wait else _FATE
    text = f"{who} was at work in this place when this one began: {fate}"
    return Reject("duplicate_rank", text, final=not may_wait, retry_after_s=_RETRY_S)


def may_wait_for_place(
    state: AggregatorState, occupant: SourceState | None, identity: Identity
) -> bool:
    """Whether a double of this attempt may still come into its place: not into rank 0's, which
    would open an attempt, nor where stamps cannot be compared."""
    key, zero, data = identity.key, state.learner_zero(), state.data
    if (key.role == LEARNER and key.rank == 0) or occupant is None or zero is None:
        return False
    clocks = {occupant.identity.boot_id, zero.identity.boot_id, identity.boot_id}
    is_at_work = zero.status == "live" and zero.ended is None and data.ended is None
    began_ns = max(zero.identity.started_mono_ns, occupant.identity.started_mono_ns)
    is_of_attempt = zero.joined == data.attempt and identity.started_mono_ns > began_ns
    return len(clocks) == 1 and is_at_work and is_of_attempt


def takes_over(state: AggregatorState, identity: Identity) -> SourceState | None:
    """Whose place a double, which lives, has from now on; ``None`` while that is at work."""
    key = identity.key
    occupant = state.occupant(key.rank, key.role, key.instance)
    if occupant is None or not may_wait_for_place(state, occupant, identity):
        return None
    is_free = occupant.status != "live" or occupant.ended is not None
    return occupant if is_free else None
