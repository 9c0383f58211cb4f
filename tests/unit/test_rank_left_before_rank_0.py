"""A rank that was over before rank 0 was started fills no place: its successor is waited for."""

from __future__ import annotations

import pytest
from sources_on_paper import PaperRun

from unilab_metrics.aggregate.folding.attendance import missing_learners
from unilab_metrics.aggregate.folding.entries import OpenAttempt, SourceGone
from unilab_schema.updates import AttemptOpened


@pytest.mark.parametrize("goodbye", [False, True])
def test_its_iterations_are_sealed_and_later_ones_wait_for_its_successor(goodbye: bool) -> None:
    """A start of the training whose rank 0 died before it opened the run."""
    paper = PaperRun()
    left = paper.join(1, learners=2, started=10)
    paper.fold(left.iteration(1, {"a": 5.0}, t=40), left.watermark(50))
    if goodbye:
        paper.fold(left.end(t=50))
    paper.fold(SourceGone(left.index, "finished" if goodbye else "lost", 0, 0))
    zero = paper.join(0, learners=2, started=60)
    assert missing_learners(paper.state.data) == 1
    paper.fold(zero.iteration(2, {"a": 1.0}, t=70), zero.end(t=80))
    paper.settle()
    assert [update.iteration for update, _ in paper.updates()] == [1]
    one = paper.join(1, learners=2, started=61)
    assert missing_learners(paper.state.data) == 0
    paper.fold(one.iteration(2, {"a": 3.0}, t=90), one.end(t=90))
    paper.settle()
    assert [values for _, values in paper.updates()] == [{"a": 5.0}, {"a": 2.0}]


def test_of_another_clock_nothing_is_concluded() -> None:
    paper = PaperRun()
    paper.lose(paper.join(1, learners=2, started=10))
    paper.join(0, learners=2, started=60, boot="another")
    assert missing_learners(paper.state.data) == 0


@pytest.mark.parametrize("goodbye", [False, True])
def test_a_rank_of_a_start_between_two_rank_0s_fills_no_place_either(goodbye: bool) -> None:
    """It is taken in with the attempt to which it was nearer, and its successor is on its way."""
    paper = PaperRun()
    paper.fold(paper.join(0, learners=2, started=10).end("failed", t=20), OpenAttempt(2, 0))
    zero = paper.join(0, learners=2, started=60)
    left = paper.join(1, learners=2, started=40)
    paper.fold(left.iteration(1, {"a": 5.0}, t=50))
    assert missing_learners(paper.state.data) == 0
    if goodbye:
        paper.fold(left.end(t=50))
    paper.fold(SourceGone(left.index, "finished" if goodbye else "lost", 0, 0))
    assert missing_learners(paper.state.data) == 1
    paper.fold(zero.iteration(2, {"a": 1.0}, t=70), zero.end(t=80))
    paper.settle()
    assert 2 not in [update.iteration for update, _ in paper.updates()]
    one = paper.join(1, learners=2, started=61)
    assert missing_learners(paper.state.data) == 0
    paper.fold(one.iteration(2, {"a": 3.0}, t=90), one.end(t=90))
    paper.settle()
    assert paper.updates()[-1][1] == {"a": 2.0}


def test_a_rank_that_dies_after_rank_0_has_come_has_had_its_place() -> None:
    paper = PaperRun()
    zero = paper.join(0, learners=2, started=10)
    one = paper.join(1, learners=2, started=5)
    paper.fold(one.iteration(1, {"a": 3.0}, t=12))
    paper.lose(one)
    assert missing_learners(paper.state.data) == 0
    paper.fold(zero.iteration(1, {"a": 1.0}, t=20), zero.iteration(2, {"a": 1.0}, t=30))
    paper.settle()
    assert [values for _, values in paper.updates()] == [{"a": 2.0}, {"a": 1.0}]


def test_its_attempt_is_told_of_as_it_has_said_itself() -> None:
    paper = PaperRun(algorithm="sac", task="reach", step_axis="env_steps", world_size=2)
    paper.fold(paper.join(1, learners=2, started=10).iteration(1, {"a": 1.0}, t=40))
    while (seal := paper.decider.flush(0, 0)) is not None:
        paper.fold(seal)
    (opened,) = [p.entry for p in paper.published if isinstance(p.entry, AttemptOpened)]
    assert opened.run == paper.run
