"""An iteration that its rank is done with: what comes for it later, whenever that is."""

from __future__ import annotations

from itertools import product

import pytest
from sources_on_paper import PaperRun, PaperSource, two_learners

from unilab_metrics.aggregate.folding import deciding
from unilab_metrics.aggregate.folding.state import AggregatorState

Call = tuple[int, dict[str, float]]

REPEATED: list[Call] = [
    (1, {"a": 1.0}),
    (2, {"a": 2.0}),
    (3, {"a": 3.0}),
    (2, {"a": 99.0, "b": 7.0}),
    (4, {"a": 4.0}),
]


def told(paper: PaperRun) -> dict[tuple[int, str], float]:
    """Every value of the history; each once."""
    found: dict[tuple[int, str], float] = {}
    for entry, values in paper.updates():
        for tag, value in values.items():
            assert (entry.iteration, tag) not in found
            found[entry.iteration, tag] = value
    return found


def played(calls: list[Call], seals_after: tuple[bool, ...]) -> PaperRun:
    paper = PaperRun()
    zero = paper.join(0)
    for (iteration, values), seals in zip(calls, seals_after, strict=True):
        paper.fold(zero.iteration(iteration, values))
        if seals:
            paper.settle(2_000)
    paper.settle()
    paper.settle(2_000)
    return paper


@pytest.mark.parametrize("seals_after", list(product([False, True], repeat=len(REPEATED))))
def test_a_repeated_older_iteration_gives_the_same_whenever_it_was_sealed(
    seals_after: tuple[bool, ...],
) -> None:
    paper = played(REPEATED, seals_after)
    expected = {(k, "a"): float(k) for k in range(1, 5)}
    assert told(paper) == expected | {(2, "b"): 7.0}
    assert paper.state.data.late_values == 1
    assert paper.state.data.sources[0].late_values == 1


@pytest.mark.parametrize("seals_between", [False, True])
def test_a_completed_iteration_is_closed_for_its_rank(seals_between: bool) -> None:
    calls: list[Call] = [(1, {"a": 1.0}), (1, {"a": 5.0, "b": 2.0})]
    paper = played(calls, (seals_between, True))
    assert told(paper) == {(1, "a"): 1.0, (1, "b"): 2.0}
    assert paper.state.data.late_values == 1


@pytest.mark.parametrize("seals", [False, True])
def test_the_first_value_stands_also_where_the_others_were_not_waited_for(seals: bool) -> None:
    paper, zero, one = two_learners()
    paper.fold(one.iteration(1, {"b": 0.0}))
    paper.settle()
    paper.settle(31_000)
    for value in (1.0, 2.0, 3.0):
        paper.fold(zero.iteration(1, {"a": value}))
        if seals:
            paper.settle()
            paper.settle(2_000)
    paper.settle()
    paper.settle(2_000)
    assert told(paper) == {(1, "b"): 0.0, (1, "a"): 1.0}
    assert paper.state.data.late_values == 2


@pytest.mark.parametrize("seals_between", [False, True])
def test_an_iteration_that_was_skipped_and_comes_later_is_kept(seals_between: bool) -> None:
    paper = played([(5, {"a": 5.0}), (3, {"a": 3.0})], (seals_between, True))
    assert told(paper) == {(5, "a"): 5.0, (3, "a"): 3.0}
    assert paper.state.data.last_iteration == 5


@pytest.mark.parametrize("comes_early", [True, False])
def test_late_values_wait_until_the_other_ranks_are_done(comes_early: bool) -> None:
    paper, zero, one = two_learners()
    late = zero.iteration
    paper.fold(zero.iteration(1, {"a": 1.0}), zero.iteration(2, {"a": 1.0}))
    if comes_early:
        paper.fold(late(1, {"a": 50.0, "b": 50.0, "c": 9.0}))
        paper.settle(2_000)
        assert paper.updates() == []
    paper.fold(one.iteration(1, {"a": 3.0, "b": 4.0}), one.iteration(2, {"a": 3.0}))
    paper.settle()
    if not comes_early:
        paper.fold(late(1, {"a": 50.0, "b": 50.0, "c": 9.0}))
    paper.settle()
    paper.settle(2_000)
    assert told(paper) == {(1, "a"): 2.0, (1, "b"): 4.0, (1, "c"): 9.0, (2, "a"): 2.0}
    assert paper.state.data.late_values == 2


def test_a_snapshot_between_changes_nothing() -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(1, {"a": 1.0}), zero.iteration(1, {"a": 8.0, "b": 2.0}))
    twin = AggregatorState(paper.state.snapshot())
    assert twin.data.windows.open.keys() == twin.data.windows.late.keys() == {1}
    assert twin.data.windows.held_bytes == paper.state.data.windows.held_bytes > 0
    paper.fold(one.iteration(1, {"a": 3.0}))
    paper.settle()
    paper.settle(2_000)
    assert told(paper) == {(1, "a"): 2.0, (1, "b"): 2.0}
    assert paper.state.data.windows.held_bytes == 0


def test_what_waits_for_other_ranks_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "MAX_OPEN_WINDOWS", 16)
    monkeypatch.setattr(deciding, "MAX_LATE_WINDOWS", 4)
    paper, zero, _ = two_learners()
    paper.fold(zero.iteration(1000, {"a": 1.0}))
    for k in range(100):
        paper.fold(zero.iteration(k, {"a": float(k)}))
        paper.settle()
        assert len(paper.state.data.windows.late) <= 16
    paper.settle(2_000)
    assert told(paper) == {(k, "a"): float(k) for k in range(100)} | {(1000, "a"): 1.0}


def test_late_values_of_a_process_whose_place_is_taken_are_counted() -> None:
    paper, zero, one = two_learners()
    _log_twice(paper, zero)
    forgotten = paper.state.data.windows.forget(zero.index)
    assert forgotten == 2
    assert len(paper.state.data.windows.open) + len(paper.state.data.windows.late) == 0
    assert paper.state.data.windows.held_bytes == 0
    paper.fold(one.iteration(1, {"a": 3.0}))
    paper.settle()


def _log_twice(paper: PaperRun, source: PaperSource) -> None:
    paper.fold(source.iteration(1, {"a": 1.0}), source.iteration(1, {"b": 2.0}))


def test_steps_of_a_call_after_the_completing_one_count() -> None:
    paper = PaperRun()
    zero = paper.join(0)
    paper.fold(zero.iteration(1, {"a": 1.0}), zero.iteration(1, {"b": 2.0}, env_steps=64))
    paper.settle()
    paper.settle(2_000)
    paper.fold(zero.iteration(2, {"a": 1.0}))
    paper.settle()
    assert paper.updates()[-1][0].env_steps == 64
