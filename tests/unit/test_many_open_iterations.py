"""The work for an iteration does not grow with the number of those that are open."""

from __future__ import annotations

from collections.abc import Iterator

from sources_on_paper import MS, PaperRun, two_learners

from unilab_metrics.aggregate.folding.deciding import MAX_OPEN_WINDOWS
from unilab_metrics.aggregate.folding.window import RankShare, Windows
from unilab_metrics.aggregate.folding.window import Window as OpenWindow

MANY = 3 * MAX_OPEN_WINDOWS


class Counting(dict[int, OpenWindow]):
    """Counts the keys that are looked at one by one."""

    looked_at = 0

    def __iter__(self) -> Iterator[int]:
        for key in super().__iter__():
            self.looked_at += 1
            yield key

    def __reversed__(self) -> Iterator[int]:
        for key in super().__reversed__():
            self.looked_at += 1
            yield key


def test_a_rank_far_ahead_costs_no_more_for_each_iteration() -> None:
    paper = PaperRun()
    rank = paper.join(0)
    counting = paper.state.data.windows.open = Counting()
    for iteration in range(MANY):
        paper.fold(rank.iteration(iteration, {"a": 1.0}))
    calls = 0
    key = paper.decider._key

    def counted(iteration: int) -> tuple[int, int]:
        nonlocal calls
        calls += 1
        return key(iteration)

    paper.decider._key = counted  # type: ignore[method-assign]
    paper.settle()
    assert [update.iteration for update, _ in paper.updates()] == list(range(MANY))
    assert counting.looked_at <= 8 * MANY
    assert calls <= 12 * MANY


def test_so_does_one_that_is_dead_behind_one_that_is_slow() -> None:
    paper, ahead, slow = two_learners()
    counting = paper.state.data.windows.open = Counting()
    paper.fold(slow.iteration(0, {"a": 1.0}))
    for iteration in range(MANY):
        paper.fold(ahead.iteration(iteration, {"a": 1.0}))
    paper.lose(ahead)
    paper.settle()
    paper.settle(60_000)
    assert len(paper.updates()) >= MANY - MAX_OPEN_WINDOWS
    assert counting.looked_at <= 12 * MANY


def test_the_lowest_open_iteration_is_found_whatever_the_order() -> None:
    windows = Windows()
    for iteration in (5, 3, 9, 3, 7):
        windows.add(RankShare(iteration, 0, MS, MS), iteration, None, more=True)
    assert windows.lowest() is windows.open[3]
    windows.close(5, supplement=False)
    assert sorted(windows.open) == [7, 9]
    windows.forget(7)
    lowest = windows.lowest()
    assert lowest is not None
    assert lowest.iteration == 9
    windows.reset()
    assert windows.lowest() is None
    windows.add(RankShare(1, 0, MS, MS), 2, None, more=True)
    assert windows.lowest() is windows.open[2]
