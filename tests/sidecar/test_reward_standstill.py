"""Rewards that stand still at one exact value, and rewards that are no numbers."""

from __future__ import annotations

import math
import random

import pytest
from series_records import head, picture, update

from unilab_metrics.subscribe.history import HistoryRecord
from unilab_schema.known_names import MEAN_REWARD
from unilab_schema.updates import RunEnded
from unilab_sidecar.drawing.text import plain, width_of
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.panels.rewards import rewards as panel
from unilab_sidecar.printed.end_figures import end_figures
from unilab_sidecar.series import Series
from unilab_sidecar.values.rewards import RewardCourse


def trend_of(made: RewardCourse) -> str | None:
    found = made.direction(is_whole=False)
    return None if found is None else found.trend


@pytest.mark.parametrize(
    ("level", "at_first"), [(500.0, "rising"), (0.0, "falling")], ids=["solved", "collapsed"]
)
@pytest.mark.parametrize("updates_per_report", [1, 5])
def test_after_a_long_time_at_one_exact_value_the_course_is_steady(
    level: float, at_first: str, updates_per_report: int
):
    made, iteration = RewardCourse(), 0
    for k in range(300):
        for _ in range(updates_per_report):
            iteration += 1
            made.add(k * 5 / 3, iteration)
    assert trend_of(made) == "rising"
    for k in range(200):
        for _ in range(updates_per_report):
            iteration += 1
            made.add(level, iteration)
        if k == 20:
            assert trend_of(made) == at_first
    assert trend_of(made) == "steady"
    assert made.history[-150:] == (level,) * 150
    span = made.course().span
    assert span is not None
    assert span[1] == iteration


def test_reports_that_come_at_odd_times_are_none_of_a_standstill():
    chance, made = random.Random(17), RewardCourse()
    for k in range(200):
        for _ in range(chance.randint(5, 15)):
            made.add(float(k))
    assert made.history == tuple(float(k) for k in range(200))


def test_reports_that_have_become_rarer_soon_count_once_again():
    made = RewardCourse()
    for k in range(20):
        made.add(float(k))
    for k in range(20, 60):
        for _ in range(50):
            made.add(float(k))
    counted = [made.history.count(float(k)) for k in range(20, 60)]
    assert max(counted[:2]) > 1
    assert counted[3:] == [1] * 37


def test_the_first_report_counts_once_however_long_it_is_the_only_one():
    made = RewardCourse()
    for _ in range(500):
        made.add(0.0)
    assert made.history == (0.0,)


@pytest.mark.parametrize("level", [0.0, -3.5, 500.0])
def test_a_reward_that_never_changes_is_a_flat_line_without_a_trend(level: float):
    made = RewardCourse()
    for iteration in range(1, 8):
        made.add(level, iteration)
    assert made.course() == ((level,), (1, 1))
    for iteration in range(8, 101):
        made.add(level, iteration)
    assert made.course() == ((level,) * 13, (1, 100))
    for is_whole in (False, True):
        assert made.direction(is_whole=is_whole) is None
    for iteration in range(101, 10_001):
        made.add(level, iteration)
    assert made.course() == ((level,) * 200, (1, 10_000))
    assert made.direction(is_whole=True) is None
    made.add(level + 1, 10_001)
    assert made.course() == ((level, level + 1), (1, 10_001))


def test_the_first_report_of_an_attempt_that_goes_on_is_no_line_of_its_own():
    made = RewardCourse()
    for iteration in range(1, 4):
        made.add(float(iteration), iteration)
    for iteration in range(1, 51):
        made.add(7.0, iteration, attempt=2)
    assert set(made.course().values) == {7.0}
    assert made.course().span == (1, 50)


@pytest.mark.parametrize(("width", "rows"), [(60, 12), (60, 6), (60, 4), (30, 12)])
def test_a_panel_of_a_reward_that_never_changes_has_a_line_over_all_of_its_width(
    width: int, rows: int
):
    records = [update(n, {MEAN_REWARD: 500.0}) for n in range(1, 2_000)]
    shown = panel(picture(*records), width, rows=rows, decimals=3)
    lines = [plain(one) for one in shown]
    assert "rising" not in "".join(lines)
    drawn = [one for one in lines if any("\u2800" < c <= "\u28ff" or c in "▄▃" for c in one)]
    assert len(drawn) == 1
    assert width_of(drawn[0]) >= width - 3


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_there_is_no_trend_while_the_reward_is_no_finite_number(value: float):
    made = RewardCourse()
    for k in range(100):
        made.add(float(k), k)
    for k in range(100, 200):
        made.add(value, k)
        assert made.direction(is_whole=False) is None
        assert made.direction(is_whole=True) is None
    assert made.last is not None
    assert str(made.last) == str(value)
    assert made.history == tuple(float(k) for k in range(100))
    made.add(99.0, 200)
    assert (trend_of(made), made.last) == ("rising", 99.0)


def test_the_end_of_a_run_whose_reward_became_nan_says_so():
    series = Series()
    rewards = [float(i) for i in range(1, 31)] + [math.nan] * 5
    records = [update(i, {MEAN_REWARD: value}) for i, value in enumerate(rewards, 1)]
    ended = HistoryRecord(36, RunEnded(1, "completed", 0), ())
    series.add(Batch((*records, ended), head(36.0), connected=True))
    assert series.picture().rewards.trend is None
    assert end_figures(series.picture())[0] == "last reported reward NaN (best 30.00)"
