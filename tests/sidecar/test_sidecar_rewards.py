"""The course of the mean episode return: trend, peak, and what a chart covers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from series_records import head, picture, update

from unilab_metrics.subscribe.history import HistoryRecord
from unilab_schema.updates import RunEnded
from unilab_sidecar.batch import Batch
from unilab_sidecar.rewards import RewardCourse
from unilab_sidecar.series import Series


def course(*values: float) -> RewardCourse:
    made = RewardCourse()
    for index, value in enumerate(values):
        # Real reports differ in their last digits.
        made.add(value * (1 + 1e-9 * index))
    return made


@pytest.mark.parametrize(
    ("before", "after", "trend"),
    [
        (-100.0, -104.0, "falling"),
        (-104.0, -100.0, "rising"),
        (-100.0, -90.0, "rising"),
        (100.0, 110.0, "rising"),
        (100.0, 90.0, "falling"),
        (0.0, 1.0, "rising"),
        (-0.5, 0.5, "rising"),
        (100.0, 100.0, "steady"),
    ],
)
def test_the_trend_is_right_for_rewards_of_either_sign(before: float, after: float, trend: str):
    assert course(*[before] * 10, *[after] * 10).trend() == trend


def test_a_run_that_climbs_evenly_is_rising_and_noise_on_a_plateau_is_not():
    assert course(*(float(i) for i in range(200))).trend() == "rising"
    climbed = [float(i) for i in range(80)] + [80.0 + (i % 2) for i in range(20)]
    assert course(*climbed).trend() == "steady"


def test_there_is_no_trend_before_the_eleventh_report():
    assert course(*range(10)).trend() is None
    assert course(*range(11)).trend() == "rising"


@given(st.lists(st.floats(), max_size=400))
def test_history_is_bounded_and_the_peak_is_kept(values: list[float]):
    made = RewardCourse()
    for value in values:
        made.add(value)
    finite = [value for value in values if math.isfinite(value)]
    assert made.peak == (max(finite) if finite else None)
    assert len(made.history) <= 200
    made.trend()


def test_a_report_that_updates_repeat_counts_once():
    records = [update(i, {"Train/mean_reward": float(i // 5)}) for i in range(1, 51)]
    assert picture(*records).rewards.history == tuple(float(i) for i in range(11))


def test_the_whole_run_is_kept_in_a_bounded_number_of_points():
    made = RewardCourse()
    for iteration in range(1, 100_001):
        made.add(float(iteration), iteration)
    whole, recent = made.whole(), made.recent()
    assert whole.span == (1, 100_000)
    assert recent.span == (99_801, 100_000)
    assert len(whole.values) <= 400
    assert list(whole.values) == sorted(whole.values)
    assert whole.values[0] < 400
    assert whole.values[-1] > 99_600


def test_an_ended_run_shows_its_whole_course_and_a_live_one_the_last_reports():
    series = Series()
    records = [update(i, {"Train/mean_reward": float(i)}) for i in range(1, 302)]
    series.add(Batch(tuple(records), head(301.0), connected=True))
    live = series.picture().rewards
    assert (live.span, len(live.history), live.whole_run) == ((102, 301), 200, False)
    series.add(Batch((HistoryRecord(302, RunEnded(1, "completed", 0), ()),)))
    ended = series.picture().rewards
    assert (ended.span, len(ended.history), ended.whole_run) == ((1, 301), 301, True)
