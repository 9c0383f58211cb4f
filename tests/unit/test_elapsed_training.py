"""Elapsed time counts from the start of the training, not of the warm-up before it."""

from __future__ import annotations

from sources_on_paper import MS, PaperRun, two_learners

from unilab_metrics.aggregate.folding.entries import Seal
from unilab_schema.updates import Update


def elapsed(paper: PaperRun, iteration: int, at_ms: int) -> float:
    paper.fold(Seal(iteration, at_ms * MS, at_ms * MS))
    update = paper.updates()[-1][0]
    assert isinstance(update, Update)
    return update.elapsed_s


def test_a_warm_up_is_no_part_of_the_elapsed_time() -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.event("status", t=1000, fill=0.1), one.event("training_started", t=2000))
    # Rank 0's start counts: its clock is the one that elapsed time is read from.
    paper.fold(zero.event("training_started", t=60_000))
    paper.fold(zero.iteration(1, {"a": 1.0}, t=61_500), one.iteration(1, {"a": 1.0}, t=61_600))
    assert elapsed(paper, 1, 61_700) == 1.5
    paper.fold(zero.iteration(2, {"a": 1.0}, t=63_000), one.iteration(2, {"a": 1.0}, t=63_100))
    assert elapsed(paper, 2, 63_200) == 3.0
