"""How long the training has gone on, where ranks do not wait for each other."""

from __future__ import annotations

from pathlib import Path

from sources_on_paper import MS, PaperRun, two_learners

from unilab_metrics.aggregate.announcing.training_time import training_s
from unilab_metrics.aggregate.folding.entries import OpenAttempt
from unilab_metrics.aggregate.outcome import outcome_of


def told(paper: PaperRun, now_ms: int, frame_age_s: float = 0.0, boot: str = "boot") -> float:
    return training_s(paper.state.data, now_ms * MS, boot, lambda _: frame_age_s)


def test_it_goes_on_while_any_learner_lives_and_ends_with_the_newest_iteration() -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.event("training_started", t=2000), one.event("training_started", t=2100))
    paper.fold(zero.iteration(1, {"a": 1.0}, t=3000), one.iteration(1, {"a": 1.0}, t=5000))
    assert told(paper, 7000) == 5.0
    paper.fold(zero.end(t=7000))
    assert told(paper, 17_000) == 15.0
    paper.fold(one.iteration(2, {"a": 1.0}, t=18_000), one.end(t=19_000))
    assert told(paper, 30_000) == 16.0
    assert outcome_of(paper.state, Path("run"), {}, {}).elapsed_s == 16.0


def test_it_has_not_begun_before_the_first_iteration() -> None:
    paper, zero, one = two_learners()
    assert told(paper, 9000) == 0.0
    paper.fold(zero.event("training_started", t=2000), one.event("training_started", t=2000))
    assert told(paper, 9000) == 0.0


def test_a_clock_of_another_machine_is_not_compared() -> None:
    paper = PaperRun()
    far = paper.join(0, boot="elsewhere")
    paper.fold(far.event("training_started", t=2000), far.iteration(1, {"a": 1.0}, t=3000))
    assert told(paper, 900_000, frame_age_s=0.5) == 1.5


def test_an_attempt_knows_where_it_began_itself() -> None:
    paper = PaperRun()
    first = paper.join(0)
    paper.fold(first.iteration(1, {"a": 1.0}, t=3000), first.iteration(2, {"a": 1.0}, t=4000))
    paper.settle()
    data = paper.state.data
    assert (data.first_iteration, data.attempt_iteration, data.earlier_elapsed_s) == (1, 1, 0.0)
    paper.fold(OpenAttempt(2, 0))
    assert data.attempt_iteration is None
    again = paper.join(0)
    paper.fold(again.iteration(51, {"a": 1.0}, t=9000), again.iteration(52, {"a": 1.0}, t=9100))
    paper.settle()
    assert (data.first_iteration, data.attempt_iteration) == (1, 51)
    assert data.earlier_elapsed_s > 0.0
