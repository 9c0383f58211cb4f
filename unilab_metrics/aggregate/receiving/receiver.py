"""Who may publish: the answer to a Hello. Pure; which of their records are new is in
``accepting``."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from unilab_metrics.aggregate.folding.entries import (
    Entry,
    GapFound,
    SourceGone,
    SourceJoined,
    SourceReturned,
)
from unilab_metrics.aggregate.folding.limits import MAX_GAP_FRAMES, hello_fault
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.folding.state import AggregatorState
from unilab_metrics.aggregate.receiving import doubles
from unilab_metrics.aggregate.receiving.after_loss import is_another_start, is_stranger
from unilab_metrics.aggregate.receiving.attempts import (
    began_before_the_end,
    has_a_successor,
    is_of_an_earlier_attempt,
    is_of_another_world,
    is_of_the_next_attempt,
    replaces_a_lost_one,
    started_before,
    was_double,
)
from unilab_metrics.outcome import COMPLETED
from unilab_schema.control import Hello, Reject
from unilab_schema.identity import LEARNER, Identity

MAX_SOURCES = 4096
"""Living ones. A long elastic run has many that are gone."""
MAX_INCARNATIONS = 65_536
"""Over the whole run: the aggregator must know each one again."""

IsDead = Callable[[SourceState], bool]
_WAITS = "what it logs waits in its spool for the next attempt, or for `recover`"
_CLOSING = Reject("closing", f"the run is ending; {_WAITS}", retry_after_s=1.0)


class Admission(NamedTuple):
    """Answer to a Hello. ``entries`` are journaled and folded before the source is known, also
    with a ``refusal``: then it holds for good.

    ``vacate``: a dead incarnation whose leftovers must be adopted first; ask again after
    that. ``opens_attempt``: a new attempt begins before the entries.
    """

    entries: tuple[Entry, ...] = ()
    refusal: Reject | None = None
    vacate: SourceState | None = None
    opens_attempt: bool = False


def admit(
    state: AggregatorState,
    hello: Hello,
    is_dead: IsDead,
    *,
    is_closing: bool = False,
    is_orphan: bool = False,
    may_wait: bool = True,
    at_work: doubles.AtWork = doubles.was_at_work,
) -> Admission:
    """Decide on a Hello. ``is_dead`` tells whether a source's process is known to be gone,
    ``at_work`` whether it has met the one that says Hello.

    ``is_closing``: this aggregator is ending the run, which its successor may go on with.
    ``is_orphan``: the process is dead already, and nobody but us will take what it left; the
    Hello that stands for it has its newest stamp.
    ``may_wait``: another rank 0 may still come, to whose attempt an orphan may belong.
    """
    fault = hello_fault(hello)
    if fault:
        return Admission(refusal=Reject("bad_message", fault, final=True))
    identity = hello.identity
    known = state.source_of(identity.incarnation)
    key = identity.key
    occupant = state.occupant(key.rank, key.role, key.instance)
    is_double = known is not None and known.is_double and not is_orphan
    if known is not None and is_double and doubles.takes_over(state, identity) is None:
        return Admission(refusal=doubles.refusal(state, occupant, identity))
    if known is not None:
        return _known_again(known, hello, is_closing=is_closing)
    if is_closing:
        return Admission(refusal=_CLOSING)
    if _is_full(state):
        text = f"{MAX_SOURCES} sources publish already, or {MAX_INCARNATIONS} have been here"
        return Admission(refusal=Reject("too_many_sources", text, final=True))
    if occupant is not None and occupant.status == "live" and occupant.ended is None:
        return _claim(state, occupant, hello, is_dead, at_work, is_orphan=is_orphan)
    if occupant is not None and doubles.is_double(
        state, occupant, hello, at_work, is_orphan=is_orphan
    ):
        return _turn_away(state, occupant, identity, is_orphan=is_orphan)
    return _join(state, hello, is_dead, is_orphan=is_orphan, may_wait=may_wait)


def _claim(
    state: AggregatorState,
    occupant: SourceState,
    hello: Hello,
    is_dead: IsDead,
    at_work: doubles.AtWork,
    *,
    is_orphan: bool,
) -> Admission:
    """On a Hello for a place in which a process is at work, as far as it has said."""
    if is_dead(occupant):
        return Admission(vacate=occupant)
    if occupant.joined < state.data.attempt and not is_orphan:
        return Admission((_superseded(occupant, hello), _joined(state, hello.identity)))
    if is_orphan and has_a_successor(state, hello.identity):
        return Admission(_replaced(state, hello.identity))
    zero = state.learner_zero()
    zero_is_gone = zero is None or (zero is not occupant and _is_gone(zero, is_dead))
    is_within = is_orphan and not zero_is_gone and doubles.lived_within(state, occupant, hello)
    if is_within or doubles.is_double(state, occupant, hello, at_work, is_orphan=is_orphan):
        return _turn_away(state, occupant, hello.identity, is_orphan=is_orphan)
    if zero is not None and zero_is_gone:
        return _held(zero)
    text = f"the {occupant.name} lives, so there is no place for another"
    return Admission(refusal=Reject("duplicate_rank", text, retry_after_s=1.0))


def returned(
    state: AggregatorState,
    source: SourceState,
    silent_s: float,
    unix_ns: int,
    mono_ns: int,
    *,
    hello_last: int = 0,
) -> SourceReturned | None:
    """What to fold when a source says something that was taken for lost: over the network a
    silent process cannot be told from a dead one. ``None`` for one that was not, or whose place
    or attempt is somebody else's by now. A double whose place has become free takes it, behind
    ``hello_last``: the last record that it had when it was told so."""
    data = state.data
    key = source.identity.key
    if source.status != "lost" or source.ended is not None:
        return None
    if source.is_double:
        before = doubles.takes_over(state, source.identity)
        if before is None or source.cursor < hello_last:
            return None
        text = (
            f"{source.name} has taken the place of {before.name}, which has ended; what it said "
            "before is counted as late"
        )
        return SourceReturned(source.index, unix_ns, mono_ns, text)
    is_in_place = state.occupant(key.rank, key.role, key.instance) is source
    if not is_in_place or source.attempt != data.attempt:
        return None
    text = f"{source.name} is heard again after {silent_s:.0f} s and was not lost"
    return SourceReturned(source.index, unix_ns, mono_ns, text)


def _is_full(state: AggregatorState) -> bool:
    sources = state.data.sources
    if len(sources) < MAX_SOURCES:
        return False
    alive = sum(source.status == "live" and source.ended is None for source in sources)
    return alive >= MAX_SOURCES or len(sources) >= MAX_INCARNATIONS


def _superseded(survivor: SourceState, hello: Hello) -> SourceGone:
    identity = hello.identity
    text = (
        f"{survivor.name} belongs to an earlier attempt; pid {identity.pid} on {identity.host} has "
        "taken its place, and what it still says is counted as late"
    )
    return SourceGone(survivor.index, "superseded", hello.unix_ns, hello.mono_ns, text)


def _joined(state: AggregatorState, identity: Identity) -> SourceJoined:
    return SourceJoined(len(state.data.sources), identity)


def _join(
    state: AggregatorState,
    hello: Hello,
    is_dead: IsDead,
    *,
    is_orphan: bool,
    may_wait: bool,
) -> Admission:
    identity = hello.identity
    joined = _joined(state, identity)
    zero = state.learner_zero()
    attempt = state.data.attempt
    has_ended = state.data.ended is not None
    if zero is None or zero.attempt != attempt:
        return _join_without_zero(state, joined, is_orphan=is_orphan)
    if identity.key.role == LEARNER and identity.key.rank == 0:
        if is_orphan and started_before(zero, identity):
            return Admission(_replaced(state, identity))
        return Admission((joined,), opens_attempt=True)
    is_followed = has_a_successor(state, identity)
    if is_orphan and (is_followed or is_of_an_earlier_attempt(state, identity, hello.mono_ns)):
        return Admission(_replaced(state, identity))
    zero_is_gone = _is_gone(zero, is_dead)
    occupant = state.occupant(identity.key.rank, identity.key.role, identity.key.instance)
    had_its_turn = occupant is not None and occupant.attempt == attempt
    is_double = (
        occupant is not None and occupant.joined == attempt and was_double(occupant, identity)
    )
    if began_before_the_end(zero, identity):
        # It was started again while rank 0 was still at work, and only says so afterwards.
        had_its_turn = False
    elif occupant is not None and replaces_a_lost_one(zero, occupant, identity):
        had_its_turn = False
    is_later = is_of_the_next_attempt(zero, identity)
    # A dead process of the same time only comes late: its place was taken meanwhile. How long a
    # rank 0 without a goodbye has lived after its last frame is not known.
    is_held = is_later and (may_wait or zero.ended is not None)
    # Who comes after a failure is rather of the next attempt than late for this one. `sys.exit(1)`
    # looks as if all had gone well.
    is_next = zero.ended != COMPLETED or is_of_another_world(zero, identity)
    must_wait = is_held if is_orphan else had_its_turn or (is_later and is_next)
    if has_ended and not is_orphan and not began_before_the_end(zero, identity):
        return _held(zero)
    if zero_is_gone and must_wait:
        return _held(zero)
    if occupant is not None and is_double:
        return _turn_away(state, occupant, identity, is_orphan=is_orphan)
    return Admission((joined,))


def _join_without_zero(
    state: AggregatorState, joined: SourceJoined, *, is_orphan: bool
) -> Admission:
    has_ended = state.data.ended is not None
    if is_another_start(state, joined.identity):
        return Admission((joined,), opens_attempt=True)
    if not is_orphan and not has_ended and is_stranger(state, joined.identity):
        text = f"rank 0 has not come back; {_WAITS}"
        return Admission(refusal=Reject("held", text, retry_after_s=0.5))
    # What a dead process left is of the attempt that rank 0 has never joined.
    return Admission((joined,), opens_attempt=has_ended and not is_orphan)


def _held(zero: SourceState) -> Admission:
    why = "has said goodbye" if zero.ended is not None else "is gone"
    return Admission(refusal=Reject("held", f"rank 0 {why}; {_WAITS}", retry_after_s=0.5))


def _is_gone(source: SourceState, is_dead: IsDead) -> bool:
    return source.status != "live" or source.ended is not None or is_dead(source)


def _replaced(state: AggregatorState, identity: Identity) -> tuple[Entry, ...]:
    joined = SourceJoined(len(state.data.sources), identity, is_late=True)
    text = (
        f"what pid {identity.pid} on {identity.host} has left is of an earlier attempt, "
        "and is counted as late"
    )
    started = identity.started_unix_ns, identity.started_mono_ns
    return joined, SourceGone(joined.source, "superseded", *started, text)


def _turn_away(
    state: AggregatorState, occupant: SourceState, identity: Identity, *, is_orphan: bool
) -> Admission:
    """The second process in a place."""
    entries = doubles.turned_away(state, identity, occupant, is_told=not is_orphan)
    if is_orphan or doubles.takes_over(state, identity) is not None:
        return Admission(entries)
    return Admission(entries, refusal=doubles.refusal(state, occupant, identity))


def _known_again(source: SourceState, hello: Hello, *, is_closing: bool) -> Admission:
    lost = hello.first - 1 - source.cursor
    if lost <= 0:
        return Admission()
    if is_closing and source.status != "live":
        return Admission(refusal=_CLOSING)
    if lost > MAX_GAP_FRAMES:
        text = f"its spool begins at {hello.first}, its last frame here is {source.cursor}"
        return Admission(refusal=Reject("bad_message", text, final=True))
    if source.beyond or source.told_through > source.cursor:
        # It is told the cursor, and says itself what it lacks, and its layouts again.
        return Admission()
    text = "no longer in the spool"
    return Admission((GapFound(source.index, source.cursor + 1, hello.first - 1, text),))
