"""What an iteration is made of: shares of the ranks, late values, phases, partials."""

from __future__ import annotations

import math

import pytest
from sources_on_paper import PaperRun, two_learners

from unilab_schema.updates import Supplement


def test_throughput_is_the_sum_of_rates_and_wall_is_a_mean() -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(1, {"Perf/total_fps": 384 / 0.5, "Perf/iteration_time": 0.5}))
    paper.fold(one.iteration(1, {"Perf/total_fps": 384 / 1.0, "Perf/iteration_time": 1.0}))
    paper.settle()
    assert paper.last() == {"Perf/total_fps": 1152.0, "Perf/iteration_time": 0.75}


def test_last_value_wins_for_a_tag_given_twice() -> None:
    paper = PaperRun()
    zero = paper.join(0)
    paper.fold(zero.iteration(1, {"a": 1.0}, more=True), zero.iteration(1, {"a": 2.0}))
    paper.settle()
    assert paper.last() == {"a": 2.0}


def test_late_values_become_a_supplement_with_only_the_tags_that_the_iteration_lacks() -> None:
    paper = PaperRun()
    zero = paper.join(0)
    paper.fold(zero.iteration(1, {"a": 1.0}), zero.iteration(2, {"a": 2.0}))
    paper.settle()
    paper.fold(zero.iteration(1, {"a": 9.0, "eval": 7.0}))
    paper.settle()
    entry, values = paper.updates()[-1]
    assert isinstance(entry, Supplement)
    assert entry.iteration == 1
    assert values == {"eval": 7.0}
    assert paper.state.data.late_values == 1


def test_supplements_of_all_ranks_are_reduced_together() -> None:
    paper, zero, one = two_learners()
    for source in (zero, one):
        paper.fold(source.iteration(1, {"a": 1.0}), source.iteration(2, {"a": 1.0}))
    paper.settle()
    paper.fold(zero.iteration(1, {"eval": 1.0}))
    paper.settle()
    assert len(paper.updates()) == 2
    paper.fold(one.iteration(1, {"eval": 5.0}))
    paper.settle()
    assert paper.last() == {"eval": 3.0}


def test_env_steps_are_summed_over_ranks_and_never_fall() -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(1, {"a": 1.0}, env_steps=10), one.iteration(1, {}, env_steps=20))
    paper.settle()
    paper.lose(one)
    paper.fold(zero.iteration(2, {"a": 1.0}, env_steps=15))
    paper.fold(zero.iteration(3, {"a": 1.0}, env_steps=5))
    paper.settle()
    assert [u.env_steps for u, _ in paper.updates()] == [30, 35, 35]


def test_env_steps_of_an_iteration_are_those_of_its_own_frames() -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(1, {}, env_steps=10), zero.iteration(2, {}, env_steps=20))
    paper.fold(one.iteration(1, {}, env_steps=1))
    paper.settle()
    assert paper.updates()[0][0].env_steps == 11


def test_iteration_tag_appears_once_the_step_counter_moves() -> None:
    paper = PaperRun(step_axis="env_steps")
    zero = paper.join(0)
    paper.fold(zero.iteration(1, {"a": 1.0}, env_steps=0))
    paper.fold(zero.iteration(2, {"a": 1.0}, env_steps=32))
    paper.settle()
    assert [values.get("Train/iteration") for _, values in paper.updates()] == [None, 2.0]


def test_on_policy_runs_have_no_iteration_tag() -> None:
    paper = PaperRun(step_axis="iteration")
    zero = paper.join(0)
    paper.fold(zero.iteration(1, {"a": 1.0}, env_steps=32))
    paper.settle()
    assert paper.last() == {"a": 1.0}


def test_phase_that_did_not_happen_on_a_rank_counts_as_zero_there() -> None:
    paper, zero, one = two_learners(algorithm="appo")
    publish = "Perf/learner_weight_publish_ms"
    common = {"Perf/iteration_time": 0.010, "Perf/learning_time": 0.006}
    paper.fold(zero.iteration(1, {**common, publish: 4.0}))
    paper.fold(one.iteration(1, {**common, "Perf/learning_time": 0.010}))
    paper.settle()
    values = paper.last()
    assert values[publish] == 2.0
    assert values["Perf/learning_time"] == pytest.approx(0.008, rel=1e-15)


def test_missing_value_that_is_no_phase_is_no_zero() -> None:
    paper, zero, one = two_learners(algorithm="appo")
    paper.fold(zero.iteration(1, {"Perf/iteration_time": 1.0, "x": 4.0}))
    paper.fold(one.iteration(1, {"Perf/iteration_time": 1.0}))
    paper.settle()
    assert paper.last()["x"] == 4.0


def test_values_that_a_library_has_reduced_come_from_rank_zero_only() -> None:
    paper, zero, one = two_learners()
    for source, value in ((zero, 1000.0), (one, 1.0)):
        frame = source.iteration(1, {"Perf/total_fps": value}, more=True, already_reduced=True)
        paper.fold(frame, source.iteration(1, {"a": value}))
    paper.settle()
    assert paper.last() == {"Perf/total_fps": 1000.0, "a": 500.5}


def test_rank_that_only_sends_reduced_values_is_still_done() -> None:
    paper, zero, one = two_learners()
    for source in (zero, one):
        paper.fold(source.iteration(1, {"a": 1.0}, already_reduced=True))
    paper.settle()
    assert paper.last() == {"a": 1.0}


def test_partials_are_merged_by_weight() -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(1, {"a": 5.0}, weights={"a": 5.0}))
    paper.fold(one.iteration(1, {"a": 4.0}, weights={"a": 4.0}))
    paper.settle()
    assert paper.last() == {"a": 1.0}


def test_nan_is_kept_touches_no_other_tag_and_is_remembered() -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(7, {"a": 1.0, "b": 1.0}))
    paper.fold(one.iteration(7, {"a": math.nan, "b": 3.0}))
    paper.settle()
    values = paper.last()
    assert math.isnan(values["a"])
    assert values["b"] == 2.0
    first = paper.state.data.first_nonfinite["a"]
    assert (first.iteration, first.rank) == (7, 1)


def test_opposite_infinities_and_overflow_are_data() -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(1, {"a": math.inf, "b": 1e308}))
    paper.fold(one.iteration(1, {"a": -math.inf, "b": 1e308}))
    paper.settle()
    values = paper.last()
    assert math.isnan(values["a"])
    assert values["b"] == pytest.approx(1e308)


def test_wall_time_of_an_update_is_rank_zeros() -> None:
    paper, zero, one = two_learners()
    paper.fold(one.iteration(1, {"a": 1.0}, t=90_000), zero.iteration(1, {"a": 1.0}, t=50))
    paper.settle()
    assert paper.updates()[0][0].unix_ns == 50_000_000


@pytest.mark.parametrize(
    ("iteration", "env_steps"),
    [(2**62, 1), (-(2**62), 1), (1, 2**63 - 1), (1, 2**64 - 1), (1, -1)],
)
def test_numbers_that_fit_no_update_are_quarantined(iteration: int, env_steps: int) -> None:
    paper = PaperRun(step_axis="env_steps")
    zero = paper.join(0)
    paper.fold(zero.iteration(iteration, {"a": 1.0}, env_steps=env_steps))
    paper.fold(zero.iteration(3, {"a": 1.0}, env_steps=32))
    paper.settle()
    assert paper.state.data.quarantined == 1
    assert [(u.iteration, u.env_steps) for u, _ in paper.updates()] == [(3, 32)]
    paper.state.snapshot()
