"""How long an aggregator waits for ranks that have not come, when all that came are gone."""

from __future__ import annotations

import time

import pytest
from sources_on_paper import MS, PaperRun

from unilab_metrics.aggregate.folding.entries import OpenAttempt, SourceGone
from unilab_metrics.aggregate.options import Options
from unilab_metrics.aggregate.patience import Patience


class Clock:
    """Seconds that only a test lets pass."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)


def finish(paper: PaperRun, rank: int, started: int, iteration: int) -> None:
    source = paper.join(rank, learners=2, started=started)
    paper.fold(source.iteration(iteration, {"a": 1.0}, t=started + 1), source.end(t=started + 2))
    paper.fold(SourceGone(source.index, "finished", 0, (started + 3) * MS))


def test_each_attempt_waits_for_ranks_that_are_slower_to_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, paper = Clock(monkeypatch), PaperRun()
    patience = Patience(Options(), paper.state.data)
    finish(paper, 0, 10, 1)
    assert not patience.is_over(frozenset)
    finish(paper, 1, 11, 1)
    paper.settle()
    assert paper.state.data.iterations_sealed == 1
    assert patience.is_over(frozenset)

    clock.now_s += 100
    paper.fold(OpenAttempt(2, 0))
    finish(paper, 0, 100_010, 1)
    assert not patience.is_over(frozenset)
    clock.now_s += 4
    assert not patience.is_over(frozenset)
    clock.now_s += 2
    assert patience.is_over(frozenset)


def test_who_is_on_the_way_is_waited_for_however_long_ago_the_start_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, paper = Clock(monkeypatch), PaperRun()
    patience = Patience(Options(), paper.state.data)
    finish(paper, 0, 10, 1)
    assert paper.state.data.last_iteration is None
    clock.now_s += 20
    assert not patience.is_over(lambda: frozenset({1}))
    assert patience.is_over(frozenset)


def test_iterations_of_one_rank_alone_do_not_stand_for_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a rank that is gone has left is sealed as soon as rank 0 is beyond it."""
    clock, paper = Clock(monkeypatch), PaperRun()
    patience = Patience(Options(), paper.state.data)
    left = paper.join(1, learners=2, started=1)
    paper.fold(left.iteration(1, {"a": 1.0}, t=2))
    paper.lose(left)
    finish(paper, 0, 10, 6)
    while (seal := paper.decider.flush(0, 0)) is not None:
        paper.fold(seal)
    assert paper.state.data.last_iteration == 6
    assert not patience.is_over(frozenset)
    clock.now_s += 6
    assert patience.is_over(frozenset)
