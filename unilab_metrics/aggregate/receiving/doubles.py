"""Which of two processes in one place is the second, and what becomes of it. Pure.

One that began while the other was at work is none of the run's: it is refused for as long as it
lives, and what it leaves is journaled and counted as late. One that began after the other's last
word takes its place when that is known to be dead, as every restart does.
"""

from __future__ import annotations

from collections.abc import Callable

from unilab_metrics.aggregate.folding.entries import SourceGone, SourceJoined
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.folding.state import AggregatorState
from unilab_schema.control import Hello, Reject
from unilab_schema.identity import Identity

AtWork = Callable[[SourceState, Identity], bool]
"""Whether a source has said something of its own after another process began."""

_FATE = "what this one logs enters no numbers and will count as late"


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


def refusal(occupant: SourceState | None) -> Reject:
    """For the second process, while it lives. ``occupant``: who has the place."""
    who = "another process" if occupant is None else f"the {occupant.name}"
    text = f"{who} was at work in this place when this one began: {_FATE}"
    return Reject("duplicate_rank", text, final=True)
