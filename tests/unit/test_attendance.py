"""Ranks that are missing, late, doubled, left over from an earlier attempt, or of two minds."""

from __future__ import annotations

from typing import Any

import msgspec
from sources_on_paper import MS, PaperRun, PaperSource, two_learners

from unilab_metrics.aggregate.folding.attendance import words_on_absent
from unilab_metrics.aggregate.folding.entries import OpenAttempt, SourceGone, SourceJoined
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.receiving.receiver import admit
from unilab_schema.control import Hello
from unilab_schema.identity import Identity, RunInfo, SourceKey
from unilab_schema.updates import EventUpdate


def hello(
    paper: PaperRun, rank: int, *, world_size: int = 2, started: int = 0, pid: int = 7
) -> Hello:
    """Of a process that nobody has heard of."""
    run = msgspec.structs.replace(paper.run, world_size=world_size)
    key, incarnation = SourceKey(rank, "learner"), pid.to_bytes(16, "little")
    identity = Identity(
        key, incarnation, pid, "host", "boot", "/s", "/s/lease", started * MS, 0, world_size, run
    )
    return Hello(identity, 1, 0, started * MS, 0)


def alive(_: SourceState) -> bool:
    return False


def join(paper: PaperRun, claim: Hello, **how: Any) -> PaperSource:
    """Let a process in; the source that it becomes."""
    admission = admit(paper.state, claim, alive, **how)
    assert admission.refusal is None
    assert admission.entries
    if admission.opens_attempt:
        paper.fold(OpenAttempt(paper.state.data.attempt + 1, 0))
    paper.fold(*admission.entries)
    source = paper.state.source_of(claim.identity.incarnation)
    assert source is not None
    return PaperSource(source.index, source.identity)


def warnings(paper: PaperRun) -> list[str]:
    told = [
        publication.entry.frame.text
        for publication in paper.published
        if isinstance(publication.entry, EventUpdate) and publication.entry.frame.kind == "warning"
    ]
    assert set(told) == set(paper.state.data.warnings)
    return told


def counts(paper: PaperRun) -> list[tuple[int, int, int, dict[str, float]]]:
    return [
        (u.attempt, u.iteration, u.ranks_reported, values)  # type: ignore[union-attr]
        for u, values in paper.updates()
    ]


def test_ranks_that_have_not_come_by_the_end_are_named_unless_they_were_before() -> None:
    paper = PaperRun()
    assert words_on_absent(paper.state.data) == ""
    zero = paper.join(0, learners=3)
    paper.fold(zero.iteration(1, {"a": 1.0}))
    assert words_on_absent(paper.state.data) == (
        "2 of 3 expected ranks were not heard (1, 2); what they have logged waits in their spools "
        "for the next attempt, or for `recover`"
    )
    paper.settle()
    paper.settle(30_000)
    assert words_on_absent(paper.state.data) == ""
    assert len(warnings(paper)) == 1


def test_ranks_that_never_come_are_named_once() -> None:
    paper = PaperRun()
    zero = paper.join(0, learners=4)
    two = paper.join(2, learners=4)
    for k in (1, 2):
        paper.fold(zero.iteration(k, {"a": 1.0}), two.iteration(k, {"a": 3.0}))
    paper.settle()
    assert paper.updates() == []
    paper.settle(30_000)
    assert counts(paper) == [(1, 1, 2, {"a": 2.0}), (1, 2, 2, {"a": 2.0})]
    assert warnings(paper) == [
        "2 of 4 expected ranks have not come (1, 3); iterations go on without them"
    ]


def restarted_before_rank_1() -> tuple[PaperRun, PaperSource, PaperSource]:
    """Attempt 2 has begun; of attempt 1, rank 1 still lives."""
    paper, zero, one = two_learners()
    for k in (1, 2, 3):
        paper.fold(zero.iteration(k, {"a": 1.0}), one.iteration(k, {"a": 3.0}))
    paper.settle()
    paper.lose(zero)
    return paper, join(paper, hello(paper, 0)), one


def test_a_survivor_that_goes_on_with_the_next_attempt_counts() -> None:
    paper, zero, one = restarted_before_rank_1()
    paper.fold(one.iteration(4, {"a": 3.0}), zero.iteration(4, {"a": 1.0}))
    paper.settle()
    assert counts(paper)[-1] == (2, 4, 2, {"a": 2.0})
    assert warnings(paper) == []


def test_a_survivor_gives_way_to_the_process_of_the_next_attempt() -> None:
    paper, zero, stale = restarted_before_rank_1()
    # It has not noticed yet, and its iterations are far beyond the restart's.
    paper.fold(stale.iteration(4, {"a": 99.0}), zero.iteration(2, {"a": 1.0}))
    paper.settle(1_000)
    assert counts(paper)[-1][0] == 1, "the new rank 1 is waited for"
    one = join(paper, hello(paper, 1, pid=8))
    paper.fold(stale.iteration(5, {"a": 99.0}))
    for k in (2, 3, 4, 5):
        paper.fold(one.iteration(k, {"a": 5.0}))
        if k > 2:
            paper.fold(zero.iteration(k, {"a": 1.0}))
    paper.settle()
    assert counts(paper)[3:] == [(2, k, 2, {"a": 3.0}) for k in (2, 3, 4, 5)]
    (text,) = warnings(paper)
    assert text.startswith("learner of rank 1 (pid 101 on host) belongs to an earlier attempt; ")
    assert paper.state.data.late_values == 2


def test_a_lost_process_that_returns_after_the_next_attempt_began_changes_no_number() -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(1, {"a": 1.0}), one.iteration(1, {"a": 3.0}))
    paper.settle()
    paper.lose(one)
    paper.lose(zero)
    new_zero = join(paper, hello(paper, 0))
    new_one = join(paper, hello(paper, 1, pid=8))
    paper.fold(new_zero.iteration(1, {"a": 1.0}), one.iteration(1, {"a": 99.0, "b": 1.0}))
    paper.settle()
    paper.fold(new_one.iteration(1, {"a": 5.0}))
    paper.settle()
    assert counts(paper) == [(1, 1, 2, {"a": 2.0}), (2, 1, 2, {"a": 3.0})]
    source = paper.state.data.sources[one.index]
    assert (source.cursor, source.late_values) == (4, 2), "acknowledged, journaled, counted"


def test_ranks_of_the_next_attempt_that_come_before_its_rank_0_wait_for_it() -> None:
    paper = PaperRun(world_size=2)
    zero, one = (paper.join(rank, learners=2) for rank in (0, 1))
    paper.fold(zero.iteration(1, {"a": 1.0}, t=1000))
    paper.lose(one)
    paper.lose(zero)
    for claim in (hello(paper, 3, started=2000), hello(paper, 3, world_size=4)):
        refusal = admit(paper.state, claim, alive).refusal
        assert refusal is not None
        assert (refusal.code, refusal.final) == ("held", False)
    assert admit(paper.state, hello(paper, 3, started=900), alive).entries


def test_another_world_size_is_an_attempt_of_its_own() -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(1, {"a": 1.0}), one.iteration(1, {"a": 3.0}))
    paper.settle()
    for source in (zero, one):
        paper.lose(source)
    ranks = [join(paper, hello(paper, r, world_size=3, pid=10 + r)) for r in range(3)]
    for rank, source in enumerate(ranks):
        paper.fold(source.iteration(1, {"a": float(rank)}))
    paper.settle()
    update, values = paper.updates()[-1]
    assert (update.attempt, values) == (2, {"a": 1.0})
    assert (update.ranks_reported, update.ranks_expected) == (3, 3)  # type: ignore[union-attr]
    assert warnings(paper) == []


def test_ranks_that_disagree_about_the_world_are_named() -> None:
    paper = PaperRun(world_size=2)
    key = SourceKey(1, "learner")
    early = Identity(key, b"e" * 16, 1, "host", "boot", "", "", 0, 0, 4, RunInfo(world_size=4))
    paper.fold(SourceJoined(0, early))
    assert warnings(paper) == []
    zero = paper.join(0, learners=2)
    late = hello(paper, 2, world_size=3, pid=9)
    join(paper, late)
    assert warnings(paper) == [
        "learner of rank 1 (pid 1 on host) was started for a world of 4 ranks, rank 0 for one of 2",
        "learner of rank 2 (pid 9 on host) was started for a world of 3 ranks, rank 0 for one of 2",
    ]
    assert paper.state.source_of(zero.identity.incarnation) is not None


def test_how_a_process_ended_is_kept_and_told() -> None:
    paper, _, one = two_learners()
    text = "learner of rank 1 was killed by SIGKILL"
    paper.fold(SourceGone(one.index, "lost", 0, 0, text, "SIGKILL"))
    event = paper.published[-1].entry
    assert isinstance(event, EventUpdate)
    assert (event.frame.kind, event.frame.text) == ("lost", text)
    assert paper.state.data.sources[one.index].ending == "SIGKILL"


def test_what_a_double_said_is_counted_as_late_once_the_place_is_empty() -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(1, {"a": 1.0}), one.iteration(1, {"a": 3.0}))
    paper.settle()
    claim = hello(paper, 1, started=50, world_size=1)
    refusal = admit(paper.state, claim, alive).refusal
    assert refusal is not None
    assert refusal.code == "duplicate_rank"
    paper.fold(one.end(t=100), SourceGone(one.index, "finished", 0, 0))
    double = join(paper, claim, is_orphan=True)
    paper.fold(double.iteration(1, {"b": 99.0}), double.iteration(2, {"a": 99.0}))
    paper.fold(zero.iteration(2, {"a": 1.0}))
    paper.settle(60_000)
    assert counts(paper) == [(1, 1, 2, {"a": 2.0}), (1, 2, 1, {"a": 1.0})]
    assert paper.state.data.late_values == 2
    (text,) = warnings(paper)
    assert "claimed the place of learner of rank 1 (pid 101 on host) while that was at" in text


def test_a_rank_that_ended_and_starts_again_goes_on() -> None:
    paper, zero, one = two_learners()
    paper.fold(one.end(t=100), SourceGone(one.index, "finished", 0, 0))
    again = join(paper, hello(paper, 1, started=101))
    paper.fold(zero.iteration(1, {"a": 1.0}), again.iteration(1, {"a": 3.0}))
    paper.settle()
    assert counts(paper) == [(1, 1, 2, {"a": 2.0})]
