"""Processes that come after rank 0's goodbye, or are found after the end."""

from __future__ import annotations

import msgspec
import pytest
from sources_on_paper import MS, PaperRun, PaperSource

from unilab_metrics.aggregate.folding.attendance import missing_learners
from unilab_metrics.aggregate.folding.entries import (
    OpenAttempt,
    RunEnd,
    SourceGone,
    SourceJoined,
)
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.receiving.receiver import Admission, admit
from unilab_schema.control import Hello
from unilab_schema.identity import Identity, SourceKey


def hello(
    paper: PaperRun,
    rank: int,
    started: int,
    role: str = "learner",
    first: int = 1,
    last_stamp: int = 0,
) -> Hello:
    incarnation = f"{role}-{rank}-{started}".encode().ljust(16)[:16]
    identity = Identity(
        SourceKey(rank, role), incarnation, 7, "node", "boot", "/s", "/s/lease",
        started * MS, started * MS, 2, paper.run,
    )  # fmt: skip
    return Hello(identity, first, first, last_stamp * MS, 0)


def alive(_: SourceState) -> bool:
    return False


def ask(paper: PaperRun, what: Hello, *, is_orphan: bool = False) -> str:
    """The refusal's code; ``late``, ``attempt`` or ``joined``."""
    admission: Admission = admit(paper.state, what, alive, is_orphan=is_orphan)
    if any(isinstance(entry, SourceGone) for entry in admission.entries):
        return "late"
    if admission.refusal is not None:
        return admission.refusal.code
    return "attempt" if admission.opens_attempt else "joined"


def work(*, goodbye: bool = True) -> tuple[PaperRun, PaperSource, PaperSource]:
    """Rank 0 was at work from 10 to 50 ms, and rank 1 with it."""
    paper = PaperRun()
    zero, one = paper.join(0, learners=2, started=10), paper.join(1, learners=2, started=11)
    for source in (zero, one):
        paper.fold(source.iteration(1, {"a": 1.0}, t=49))
        if goodbye:
            paper.fold(source.end(t=50))
        paper.fold(SourceGone(source.index, "finished" if goodbye else "lost", 0, 0))
    return paper, zero, one


def end(paper: PaperRun) -> PaperRun:
    while (seal := paper.decider.flush(0, 0)) is not None:
        paper.fold(seal)
    paper.fold(RunEnd("completed", "", 0))
    return paper


def test_a_rank_that_was_started_again_before_the_goodbye_is_admitted() -> None:
    paper, *_ = work()
    assert ask(paper, hello(paper, 1, 30)) == "late"  # while the first one was at work
    paper = PaperRun()
    zero, one = paper.join(0, learners=2, started=10), paper.join(1, learners=2, started=11)
    paper.lose(one)
    paper.fold(zero.end(t=50))
    assert ask(paper, hello(paper, 1, 30)) == "joined"
    assert ask(paper, hello(paper, 1, 60)) == "held"


def test_who_replaces_a_lost_rank_while_rank_0_waits_for_the_others_is_taken() -> None:
    paper = PaperRun()
    zero, one = paper.join(0, learners=2, started=10), paper.join(1, learners=2, started=11)
    paper.lose(one)
    paper.fold(zero.end(t=50), zero.watermark(70))
    paper.fold(SourceGone(zero.index, "finished", 0, 0))
    assert ask(paper, hello(paper, 1, 60)) == "joined"
    assert ask(paper, hello(paper, 1, 60), is_orphan=True) == "joined"
    assert ask(paper, hello(paper, 1, 80)) == "held"
    assert ask(paper, hello(paper, 1, 80), is_orphan=True) == "held"
    end(paper)
    assert ask(paper, hello(paper, 1, 60)) == "held"


def test_who_said_goodbye_and_comes_again_while_rank_0_waits_is_held() -> None:
    """A training that goes on with another attempt in the same processes."""
    paper = PaperRun()
    zero, one = paper.join(0, learners=2, started=10), paper.join(1, learners=2, started=11)
    paper.fold(zero.end(t=50), one.end(t=50), zero.watermark(70))
    assert ask(paper, hello(paper, 1, 60)) == "held"
    assert ask(paper, hello(paper, 0, 75)) == "attempt"


def test_a_place_that_nobody_had_is_taken_also_after_the_goodbye() -> None:
    paper = PaperRun()
    zero, one = paper.join(0, learners=2, started=10), paper.join(1, learners=2, started=11)
    paper.fold(zero.end(t=50), one.iteration(1, {"a": 1.0}, t=49))
    assert ask(paper, hello(paper, 0, 60, "collector")) == "joined"
    assert ask(paper, hello(paper, 2, 60)) == "joined"


def test_a_rank_of_another_world_is_of_the_next_attempt_also_after_a_goodbye() -> None:
    paper = PaperRun(world_size=2)
    zero = paper.join(0, learners=2, started=10)
    paper.join(1, learners=2, started=11)
    paper.fold(zero.end(t=50))
    three = hello(paper, 2, 60)
    assert ask(paper, three) == "joined"
    run = msgspec.structs.replace(paper.run, world_size=3)
    identity = msgspec.structs.replace(three.identity, run=run)
    assert ask(paper, msgspec.structs.replace(three, identity=identity)) == "held"


def test_who_is_started_after_rank_0_has_failed_is_of_the_next_attempt() -> None:
    """A launcher starts all ranks again, and any of them may be the first to come."""
    paper = PaperRun()
    zero = paper.join(0, learners=2, started=10)
    paper.fold(zero.iteration(1, {"a": 1.0}, t=49), zero.end("failed", t=50))
    assert ask(paper, hello(paper, 1, 30)) == "joined"
    assert ask(paper, hello(paper, 1, 60)) == "held"
    assert ask(paper, hello(paper, 0, 70)) == "attempt"


@pytest.mark.parametrize(
    ("goodbye", "why"), [(True, "rank 0 has said goodbye; "), (False, "rank 0 is gone; ")]
)
def test_one_that_is_held_is_told_why_and_what_becomes_of_its_frames(
    goodbye: bool, why: str
) -> None:
    paper, *_ = work(goodbye=goodbye)
    refusal = admit(paper.state, hello(paper, 1, 60), alive).refusal
    assert refusal is not None
    assert refusal.text.startswith(why)
    assert refusal.text.endswith("waits in its spool for the next attempt, or for `recover`")
    assert not refusal.final


@pytest.mark.parametrize("role", ["learner", "collector"])
def test_after_the_end_what_began_before_it_is_taken_and_what_did_not_is_held(role: str) -> None:
    paper = end(work()[0])
    assert ask(paper, hello(paper, 2, 30, role)) == "joined"
    assert ask(paper, hello(paper, 2, 60, role)) == "held"


def test_after_the_end_what_a_dead_process_of_the_attempt_left_is_taken() -> None:
    paper = end(work()[0])
    assert ask(paper, hello(paper, 2, 30), is_orphan=True) == "joined"
    assert ask(paper, hello(paper, 0, 30, "collector"), is_orphan=True) == "joined"
    # Perhaps of an attempt whose rank 0 has yet to come; ``recover`` knows that none will.
    assert ask(paper, hello(paper, 2, 60), is_orphan=True) == "held"


def test_what_a_rank_0_left_that_came_before_the_known_one_opens_no_attempt() -> None:
    paper = end(work()[0])
    assert ask(paper, hello(paper, 0, 5), is_orphan=True) == "late"
    assert ask(paper, hello(paper, 0, 60), is_orphan=True) == "attempt"


@pytest.mark.parametrize("has_ended", [False, True])
def test_what_is_left_of_an_attempt_that_was_replaced_is_late(has_ended: bool) -> None:
    paper, *_ = work()
    paper.fold(OpenAttempt(2, 0))
    zero = paper.join(0, learners=2, started=100)
    paper.fold(zero.end(t=150), SourceGone(zero.index, "finished", 0, 0))
    if has_ended:
        end(paper)
    assert ask(paper, hello(paper, 2, 30), is_orphan=True) == "late"
    assert ask(paper, hello(paper, 2, 99), is_orphan=True) == "joined"


@pytest.mark.parametrize("goodbye", [True, False])
def test_a_rank_that_came_and_went_between_two_rank_0s_belongs_to_the_nearer(goodbye: bool) -> None:
    """A launcher gives up an attempt when rank 0 fails, also if rank 1 is only just starting."""
    paper, *_ = work(goodbye=goodbye)
    paper.fold(OpenAttempt(2, 0))
    paper.join(0, learners=2, started=300)
    assert ask(paper, hello(paper, 1, 60, last_stamp=70), is_orphan=True) == "late"
    assert ask(paper, hello(paper, 1, 60), is_orphan=True) == "late"
    assert ask(paper, hello(paper, 1, 60, last_stamp=310), is_orphan=True) == "joined"
    assert ask(paper, hello(paper, 1, 290, last_stamp=295), is_orphan=True) == "joined"


def test_what_is_found_of_an_earlier_attempt_takes_nobodys_place() -> None:
    paper, *_ = work()
    paper.fold(OpenAttempt(2, 0))
    zero = paper.join(0, learners=2, started=300)
    for rank, started in ((1, 20), (0, 5)):
        what = hello(paper, rank, started)
        for entry in admit(paper.state, what, alive, is_orphan=True).entries:
            paper.fold(entry)
    assert missing_learners(paper.state.data) == 1
    known = paper.state.learner_zero()
    assert known is not None
    assert known.index == zero.index
    paper.fold(zero.end(t=390), SourceGone(zero.index, "finished", 0, 0))
    assert ask(paper, hello(paper, 0, 400)) == "attempt"


def test_an_ended_attempt_without_rank_0_takes_in_what_is_found_of_it() -> None:
    paper = PaperRun()
    paper.lose(paper.join(1, learners=2, started=10))
    end(paper)
    assert ask(paper, hello(paper, 0, 9), is_orphan=True) == "joined"
    assert ask(paper, hello(paper, 0, 60)) == "attempt"


def test_an_aggregator_that_ends_leaves_even_a_gap_of_a_lost_one_to_the_next() -> None:
    paper, _, one = work(goodbye=False)
    end(paper)
    known = paper.state.data.sources[one.index].identity
    lacking = hello(paper, 1, 11, first=9)
    again = Hello(
        Identity(known.key, known.incarnation, 7, "node", "boot", "/s", "/s/lease", 0, 0, 2),
        lacking.first, lacking.last, 0, 0,
    )  # fmt: skip
    refusal = admit(paper.state, again, alive, is_closing=True).refusal
    assert refusal is not None
    assert (refusal.code, refusal.final) == ("closing", False)
    assert admit(paper.state, again, alive).entries


def test_the_source_joins_with_the_next_number() -> None:
    paper = end(work()[0])
    (joined,) = admit(paper.state, hello(paper, 2, 30), alive).entries
    assert isinstance(joined, SourceJoined)
    assert joined.source == 2
