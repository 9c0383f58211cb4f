"""A restart that begins before the end of the attempt before it, in the course of the reward."""

from __future__ import annotations

import math

from series_records import update

from unilab_schema.known_names import MEAN_REWARD
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.series import Series
from unilab_sidecar.values.rewards import RewardCourse


def test_what_is_trained_anew_takes_the_place_of_what_it_was():
    made = RewardCourse()
    for k in range(100):
        made.add(k + 0.5, k, 1)
    made.add(200.0, 90, 1)
    assert made.course().span == (0, 99), "late, of the same attempt"
    made.add(201.0, 100, 2)
    assert len(made.course().values) == 102, "it goes on where the other one was"
    made.add(202.0, 60, 3)
    assert made.course() == ((*(k + 0.5 for k in range(60)), 202.0), (0, 60))
    assert made.peak == 202.0
    made.add(203.0, 0, 4)
    assert made.course() == ((203.0,), (0, 0))


def test_stretches_that_reach_beyond_the_restart_go():
    made = RewardCourse()
    for k in range(1001):
        made.add(float(k), k, 1)
    made.add(0.25, 502, 2)
    values, span = made.course()
    # Means of four reports, of which the last whole one ends with iteration 499.
    assert values[-2:] == (497.5, 0.25)
    assert span == (0, 502)


def test_a_viewer_sees_but_one_course_through_an_attempt_that_began_before_the_end_of_another():
    series = Series()
    places = [(k, k, 1) for k in range(1, 10)] + [(k, k - 5, 2) for k in range(10, 14)]
    for sequence, iteration, attempt in places:
        values = {MEAN_REWARD: sequence / 2}
        one = update(sequence, values, iteration=iteration, attempt=attempt)
        series.add(Batch(records=(one,)))
    rewards = series.picture().rewards
    assert rewards.span == (1, 8)
    assert rewards.history == (0.5, 1.0, 1.5, 2.0, 5.0, 5.5, 6.0, 6.5)


def test_the_trend_compares_nothing_with_what_the_attempt_before_had_reached():
    made = RewardCourse()
    for k in range(1000):
        made.add(float(k), k, 1)
    for is_whole in (False, True):
        assert made.direction(is_whole=is_whole) is not None
    for k in range(600, 640):
        made.add(k + 0.5, k, 2)
        wanted = None if k < 619 else ("rising", 20)
        assert made.direction(is_whole=False) == wanted, k
        assert made.direction(is_whole=True) == wanted, k


def test_means_over_a_rewind_are_none_of_the_new_attempt():
    made = RewardCourse()
    for k in range(1001):
        made.add(float(k), k, 1)
    for k in range(90):
        made.add(500.5 + k, 500 + k, 2)
    found = made.direction(is_whole=True)
    assert found == ("rising", 78)


def test_an_attempt_whose_first_rewards_are_no_numbers_or_no_others_is_rewound_too():
    made = RewardCourse()
    for k in range(100):
        made.add(float(min(k, 80)), k, 1)
    made.add(math.nan, 90, 2)
    made.add(81.0, 120, 2)
    assert made.course().values[-1] == 81.0
    assert made.course().span == (0, 120)
    again = RewardCourse()
    for k in range(50):
        again.add(7.0, k, 1)
    again.add(7.0, 10, 2)
    assert again.history == (7.0, 7.0)
    assert again.course() == ((7.0, 7.0), (0, 10))
