"""Which iteration a learner's call belongs to, its wall and its throughput."""

from __future__ import annotations

import pytest

from unilab_metrics.publish.iterations import IterationClock
from unilab_metrics.publish.strict import DuplicateTagError


def log(
    clock: IterationClock, iteration: int | None = None, *, more: bool = False
) -> tuple[int, bool]:
    expected = clock.joined(iteration)
    placed, completes = clock.advance(iteration, more)
    assert placed == expected
    return placed, completes


def test_a_call_completes_its_iteration_unless_more_follows() -> None:
    clock = IterationClock()
    assert log(clock, 3, more=True) == (3, False)
    assert log(clock, 3) == (3, True)
    assert log(clock, 4) == (4, True)


def test_a_call_without_a_number_joins_the_newest_iteration() -> None:
    clock = IterationClock()
    assert log(clock, 5, more=True) == (5, False)
    assert log(clock) == (5, True)
    assert log(clock) == (5, False)
    assert log(clock, 5) == (5, False)


def test_a_training_that_never_numbers_counts_its_completing_calls() -> None:
    clock = IterationClock()
    assert [log(clock)[0] for _ in range(3)] == [0, 1, 2]
    assert log(clock, more=True) == (3, False)
    assert log(clock) == (3, True)


def test_values_for_an_older_iteration_complete_nothing() -> None:
    clock = IterationClock()
    log(clock, 5)
    assert log(clock, 3) == (3, False)
    assert log(clock, 6) == (6, True)


def test_a_tag_twice_in_one_iteration_is_refused() -> None:
    clock = IterationClock()
    clock.refuse_duplicates(1, ("a", "b"))
    clock.refuse_duplicates(1, ("c",))
    with pytest.raises(DuplicateTagError, match="'b' was logged twice for iteration 1"):
        clock.refuse_duplicates(1, ("d", "b"))
    clock.refuse_duplicates(2, ("a", "b"))


def complete(clock: IterationClock, iteration: int, env_steps: int, now_ns: int) -> object:
    clock.env_steps = env_steps
    assert clock.advance(iteration, more=False) == (iteration, True)
    return clock.collect(now_ns)


def test_wall_and_throughput_of_an_iteration() -> None:
    clock = IterationClock()
    clock.start_training(1000)
    clock.start_iteration(0)
    assert complete(clock, 1, 1384, 500_000_000) == {
        "Perf/iteration_time": 0.5,
        "Perf/total_fps": 768.0,
    }
    assert complete(clock, 2, 1384, 600_000_000) == {}


def test_of_iterations_that_are_logged_as_one_the_throughput_is_that_of_all() -> None:
    clock = IterationClock()
    clock.start_training(0)
    for tenth in range(3):
        for iteration in range(10):
            clock.start_iteration((tenth * 10 + iteration) * 100_000_000)
        assert complete(clock, tenth, (tenth + 1) * 10_000, (tenth + 1) * 1_000_000_000) == {
            "Perf/iteration_time": pytest.approx(0.1),
            "Perf/total_fps": 10_000.0,
        }
    assert not clock.started


def test_no_throughput_without_two_counters_or_a_wall() -> None:
    clock = IterationClock()
    clock.start_iteration(0)
    assert complete(clock, 1, 10, 1_000_000_000) == {"Perf/iteration_time": 1.0}
    clock.start_iteration(2_000_000_000)
    assert complete(clock, 2, 20, 2_000_000_000) == {"Perf/iteration_time": 0.0}


def test_steps_of_an_unmeasured_iteration_do_not_swell_the_next() -> None:
    clock = IterationClock()
    clock.start_training(0)
    assert complete(clock, 1, 100, 1_000_000_000) == {}
    clock.start_iteration(1_000_000_000)
    assert complete(clock, 2, 110, 2_000_000_000) == {
        "Perf/iteration_time": 1.0,
        "Perf/total_fps": 10.0,
    }
