"""A reward that has collapsed, or jumped, is never called steady over the step."""

from __future__ import annotations

import random

import pytest

from unilab_sidecar.values.reward_trend import Direction, direction_of


def course(count: int, ago: int, height: float, seed: int = 1) -> list[float]:
    chance = random.Random(seed * 1_000_000 + count * 1000 + ago)
    return [chance.gauss(0, 1) + (height if at >= count - ago else 0.0) for at in range(count)]


@pytest.mark.parametrize("height", [-12.0, 12.0])
@pytest.mark.parametrize("count", [20, 30, 45, 60, 79, 80, 120, 200, 400])
def test_a_course_goes_where_it_stepped_or_is_steady_since(count: int, height: float) -> None:
    way = "rising" if height > 0 else "falling"
    for ago in range(5, min(count - 4, 41)):
        found = direction_of(course(count, ago, height))
        assert found is not None
        assert found.trend == way or (found.trend == "steady" and found.values <= ago)


@pytest.mark.parametrize("count", [40, 60, 79])
def test_a_collapse_fourteen_to_nineteen_reports_ago_is_a_fall(count: int) -> None:
    for ago in range(14, 20):
        assert direction_of(course(count, ago, -12.0)) == Direction("falling", 20)


def test_a_fresh_collapse_is_a_fall_from_its_fifth_report_on() -> None:
    for count in (20, 60, 300):
        told = [direction_of(course(count, ago, -20.0)) for ago in (0, 5)]
        assert [one and one.trend for one in told] == ["steady", "falling"]


@pytest.mark.parametrize("count", [100, 200, 500])
def test_a_collapse_to_where_it_began_is_a_fall_though_the_course_has_risen(count: int) -> None:
    chance = random.Random(count)
    for ago in range(4, 20):
        rising = [100 * at / (count - ago) for at in range(count - ago)]
        values = [value + chance.gauss(0, 5) for value in (*rising, *[0.0] * ago)]
        assert direction_of(values) == Direction("falling", 20)


def test_what_came_long_after_a_step_is_steady_over_what_came_after_it() -> None:
    found = direction_of(course(80, 30, 12.0))
    assert found is not None
    assert found.trend == "rising" or found.values == 30


def test_three_stray_reports_are_no_step() -> None:
    values = course(60, 0, 0.0)
    for at in (-1, -2, -3):
        values[at] -= 30.0
    assert direction_of(values) == Direction("steady", 20)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_steps_of_any_size_are_seen(scale: float) -> None:
    assert direction_of([scale * v for v in course(60, 16, -30.0)]) == Direction("falling", 20)


@pytest.mark.parametrize("level", [-1e6, 1e6])
def test_a_step_of_less_than_a_thousandth_of_the_value_is_none(level: float) -> None:
    found = direction_of([level + value for value in course(60, 16, -30.0)])
    assert found is not None
    assert found.trend == "steady"


def test_a_spike_on_either_side_hides_no_step() -> None:
    for at in (-3, -10, -19):
        values = course(60, 16, -12.0)
        values[at] += 40.0
        assert direction_of(values) == Direction("falling", 20)


def test_noise_alone_is_no_more_often_a_trend_than_before() -> None:
    wrong = sum(
        found is not None and found.trend != "steady"
        for seed in range(300)
        for found in [direction_of(course(100, 0, 0.0, seed))]
    )
    assert wrong <= 3
