"""Collectors that end or die: their reports count where their stamps lie, in any order."""

from __future__ import annotations

import pytest
from sources_on_paper import PaperRun

from unilab_metrics.aggregate.folding.entries import OpenAttempt, SourceGone

HELD = "Perf/collector_env_step_ms"
FLOW = "reward/x"


@pytest.mark.parametrize("how", ["finished", "lost"])
@pytest.mark.parametrize("gone_first", [True, False])
def test_reports_of_an_iteration_count_also_when_their_collector_is_gone(
    how: str, gone_first: bool
) -> None:
    paper = PaperRun()
    learner = paper.join(0)
    collector = paper.join(0, "collector")
    paper.fold(
        collector.report({HELD: 2.0, FLOW: 1.0}, t=5),
        collector.report({HELD: 3.0, FLOW: 2.0}, t=15),
    )
    if how == "finished":
        paper.fold(collector.end(t=35))
    gone = SourceGone(collector.index, how, 0, 0)
    learned = [learner.iteration(k, {"a": 0.0}, t=10 * k) for k in (1, 2, 3, 4)]
    paper.fold(*([gone, *learned] if gone_first else [*learned, gone]))
    paper.settle()
    found = [values for _, values in paper.updates()]
    assert found[:2] == [{"a": 0.0, HELD: 2.0, FLOW: 1.0}, {"a": 0.0, HELD: 3.0, FLOW: 2.0}]
    # A goodbye says how long the state held; of a dead source only its reports speak.
    assert found[2] == ({"a": 0.0, HELD: 3.0} if how == "finished" else {"a": 0.0})
    assert found[3] == {"a": 0.0}


def test_a_collector_that_ended_counts_the_same_before_and_after_it_is_called_finished() -> None:
    paper = PaperRun()
    learner = paper.join(0)
    collector = paper.join(0, "collector")
    paper.fold(collector.report({HELD: 2.0}, t=5), collector.end(t=15))
    paper.fold(*(learner.iteration(k, {"a": 0.0}, t=10 * k) for k in (1, 2, 3)))
    paper.settle()
    assert [HELD in values for _, values in paper.updates()] == [True, False, False]


def test_reports_of_a_gone_collector_do_not_reach_the_next_attempt() -> None:
    paper = PaperRun()
    learner = paper.join(0)
    collector = paper.join(0, "collector")
    paper.fold(collector.report({HELD: 2.0}, t=5), collector.end(t=6))
    paper.fold(SourceGone(collector.index, "finished", 0, 0))
    paper.lose(learner)
    paper.fold(OpenAttempt(2, 0))
    again = paper.join(0)
    paper.fold(again.iteration(1, {"a": 0.0}, t=50))
    paper.settle()
    assert paper.last() == {"a": 0.0}


def test_a_silent_collector_costs_one_wait_and_not_one_for_each_iteration() -> None:
    paper = PaperRun()
    learner = paper.join(0)
    paper.join(0, "collector")
    paper.fold(*(learner.iteration(k, {"a": 0.0}, t=10 * k) for k in range(1, 51)))
    paper.settle()
    assert len(paper.updates()) == 0
    paper.settle(2_500)
    assert len(paper.updates()) == 50
