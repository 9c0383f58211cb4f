"""The course of the mean episode return: trend, peak, and what a chart covers."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from screen_text import plain
from series_records import head, picture, update

from unilab_metrics.subscribe.history import HistoryRecord
from unilab_schema.updates import RunEnded
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.panels.rewards import rewards
from unilab_sidecar.picture import Picture, Reading, Rewards
from unilab_sidecar.series import Series
from unilab_sidecar.values.reward_trend import direction_of
from unilab_sidecar.values.rewards import RewardCourse


def course(*values: float) -> RewardCourse:
    made = RewardCourse()
    for index, value in enumerate(values):
        # Real reports differ in their last digits.
        made.add(value * (1 + 1e-9 * index) + 1e-12 * index)
    return made


def said(*values: float) -> str | None:
    direction = direction_of(course(*values).history)
    return None if direction is None else direction.trend


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
    assert said(*[before] * 10, *[after] * 10) == trend


def test_a_run_that_climbs_evenly_is_rising_also_where_a_part_of_the_chart_is_flat():
    assert said(*(float(i) for i in range(200))) == "rising"
    assert said(*(float(i) for i in range(80)), *(80.0 + (i % 2) for i in range(20))) == "rising"


def test_noise_on_a_plateau_decides_no_trend_and_a_fall_beyond_it_does():
    chance = random.Random(3)
    plateaus = [[196 + chance.gauss(0, 4) for _ in range(200)] for _ in range(50)]
    trends = [said(*values) for values in plateaus]
    assert trends.count("steady") >= 48
    falls = [[*values, *(v - 6 * i for i, v in enumerate(values[:15]))][-200:]
             for values in plateaus]  # fmt: skip
    assert [said(*values) for values in falls] == ["falling"] * 50
    climbs = [[i + chance.gauss(0, 2) for i in range(60)] for _ in range(50)]
    assert [said(*values) for values in climbs] == ["rising"] * 50


@pytest.mark.parametrize(
    ("shape", "trend"),
    [
        (lambda at: 110 - 18.75 * at if at < 0.8 else 95 + 50 * (at - 0.8), "rising"),
        (lambda at: 20 + 170 * at if at < 0.95 else 90, "falling"),
        (lambda at: 93 + 15 * at, "rising"),
        (lambda at: 100 if at < 0.7 else 110, "rising"),
        (lambda at: 104 if at < 0.9 else 96, "falling"),
        (lambda at: -20 * math.exp(-5 * at), "steady"),
        (lambda at: 110 - 40 * min(at, 1 - at), "rising"),
    ],
    ids=[
        "late rise after a fall",
        "collapse after a climb",
        "climb",
        "step",
        "late step",
        "plateau reached",
        "there and back",
    ],
)
def test_the_word_says_where_the_course_goes_at_its_end(
    shape: Callable[[float], float], trend: str
):
    chance = random.Random(5)
    made = [[shape(i / 199) + chance.gauss(0, 1) for i in range(200)] for _ in range(20)]
    assert [said(*values) for values in made] == [trend] * 20


def test_neither_a_single_outlier_nor_noise_of_episodes_that_reports_share_is_a_trend():
    chance = random.Random(7)
    strays = [[100 + chance.gauss(0, 1) for _ in range(200)] for _ in range(30)]
    for values in strays:
        values[chance.choice([3, 100, 196])] += chance.choice([500, -500])
    assert [said(*values) for values in strays].count("steady") >= 29
    episodes = [[chance.gauss(100, 20) for _ in range(220)] for _ in range(100)]
    shared = [[sum(values[i : i + 20]) / 20 for i in range(200)] for values in episodes]
    assert [said(*values) for values in shared].count("steady") >= 90


def test_there_is_no_trend_before_there_are_ten_reports_and_ten_before_them():
    assert said(*range(19)) is None
    assert said(*range(20)) == "rising"


def test_the_trend_is_told_with_the_reports_that_it_took_to_see_it():
    assert direction_of([0.0] * 50 + [50.0] * 10) == ("rising", 20)
    assert direction_of([0.01 * k for k in range(200)]) == ("rising", 20)
    slow = [min(0.2 * k, 30.0) + 2.0 * (-1) ** k for k in range(200)]
    assert direction_of(slow) == ("rising", 100)
    assert direction_of([5.0] * 90) == ("steady", 40)
    assert direction_of([5.0] * 200) == ("steady", 100)


def test_the_trend_of_a_whole_run_is_told_with_its_reports_too():
    series = Series()
    records = [update(i, {"Train/mean_reward": float(i)}) for i in range(1, 301)]
    series.add(Batch(tuple(records), head(302.0), connected=True))
    assert series.picture().rewards.trend_reports == 20
    series.add(Batch((HistoryRecord(301, RunEnded(1, "completed", 0), ()),)))
    told = series.picture().rewards
    assert (told.trend, told.trend_reports, told.whole_run) == ("rising", 40, True)


def test_means_of_a_long_run_are_counted_as_the_reports_that_they_are_of():
    made = RewardCourse()
    for iteration in range(1, 1_004):
        made.add(float(iteration), iteration)
    assert made.direction(is_whole=False) == ("rising", 20)
    # 39 means of four, and one of three.
    assert made.direction(is_whole=True) == ("rising", 159)


@given(st.lists(st.floats(), max_size=400))
def test_history_is_bounded_and_the_peak_is_kept(values: list[float]):
    made = RewardCourse()
    for value in values:
        made.add(value)
    finite = [value for value in values if math.isfinite(value)]
    assert made.peak == (max(finite) if finite else None)
    assert len(made.history) <= 200
    direction_of(made.history)


def test_a_report_that_updates_repeat_counts_once():
    records = [update(i, {"Train/mean_reward": float(i // 5)}) for i in range(1, 51)]
    assert picture(*records).rewards.history == tuple(float(i) for i in range(11))


def test_the_whole_run_is_kept_in_a_bounded_number_of_points():
    made = RewardCourse()
    for iteration in range(1, 100_001):
        made.add(float(iteration), iteration)
    whole = made.course()
    assert whole.span == (1, 100_000)
    assert len(whole.values) <= 400
    assert list(whole.values) == sorted(whole.values)
    assert whole.values[0] < 400
    assert whole.values[-1] > 99_600


def test_a_live_run_shows_all_that_was_seen_and_an_ended_one_says_that_it_is_the_whole():
    series = Series()
    records = [update(i, {"Train/mean_reward": float(i)}) for i in range(1, 302)]
    series.add(Batch(tuple(records), head(301.0), connected=True))
    live = series.picture().rewards
    assert (live.span, len(live.history), live.whole_run) == ((1, 301), 301, False)
    series.add(Batch((HistoryRecord(302, RunEnded(1, "completed", 0), ()),)))
    ended = series.picture().rewards
    assert (ended.span, len(ended.history), ended.whole_run) == ((1, 301), 301, True)


def in_tens(*levels: float) -> list[float]:
    """Ten reports of each, without noise."""
    return [level for level in levels for _ in range(10)]


def test_a_trend_is_a_change_of_a_twentieth_of_the_height_of_the_chart():
    def end(level: float) -> str | None:
        return said(*[0.0] * 140, *[100.0] * 10, *[level] * 50)

    assert [end(4.9), end(5.1), end(-4.9), end(-6)] == ["steady", "rising", "steady", "falling"]


def test_a_change_as_large_as_those_before_is_no_trend_of_a_plateau():
    assert said(*in_tens(0, 10, 0, 10, 0, 10, 0, 10, 0, 10)) == "steady"
    assert said(*in_tens(0, 10, 0, 10, 0, 10, 0, 10, 0, 90)) == "rising"


def test_who_joins_late_is_told_the_peak_of_the_run() -> None:
    told = structs.replace(head(15.0), best_mean_reward=9.5)
    made = picture(update(900, {"Train/mean_reward": 4.0}), at=told)
    assert made.rewards.peak == 9.5
    higher = picture(update(900, {"Train/mean_reward": 11.0}), at=told)
    assert higher.rewards.peak == 11.0


def test_a_climb_of_several_times_its_noise_is_seen_in_a_hundred_reports():
    chance = random.Random(11)
    climbs = [[6 * i / 200 + chance.gauss(0, 1) for i in range(200)] for _ in range(50)]
    assert [said(*values) for values in climbs].count("rising") >= 45


def test_an_even_rise_among_noise_is_seen_and_noise_or_a_plateau_after_it_is_none():
    chance = random.Random(13)

    def rising(count: int, course_at: Callable[[float], float]) -> int:
        made = [[course_at(i / count) for i in range(count)] for _ in range(25)]
        return [said(*values) for values in made].count("rising")

    for count in (45, 60, 200):
        assert rising(count, lambda at: at + chance.gauss(0, 0.15)) >= 22, count
        assert rising(count, lambda at: -at + chance.gauss(0, 0.15)) == 0
        assert rising(count, lambda _: chance.gauss(0, 1)) <= 2, count
        assert rising(count, lambda at: min(2 * at, 1) + chance.gauss(0, 0.1)) <= 2, count


def test_a_rise_seen_only_over_all_reports_is_told_of_all():
    slow = [i / 60 + 0.2 * (-1) ** (i // 2) for i in range(60)]
    assert direction_of(slow) == ("rising", 60)
    assert direction_of([-value for value in slow]) == ("falling", 60)


def test_the_reports_of_a_trend_are_told_beside_it_wherever_there_is_room():
    course = tuple(float(k) for k in range(30))
    shown = Rewards(Reading(29.0), 29.0, 29.0, "rising", 20, course, (1, 30))

    def first_lines(width: int) -> list[str]:
        made = rewards(replace(Picture("training"), rewards=shown), width, rows=0, decimals=2)
        return [plain(one) for one in made[1:]]

    said = "Mean 29.000   Peak 29.00   ↗ rising"
    assert first_lines(70)[0].startswith(f"{said} (last 20)   ")
    assert first_lines(50)[0].startswith(f"{said}   "), "a sparkline in one line comes first"
    assert first_lines(46)[0] == f"{said} (last 20)"
    assert first_lines(40)[0] == said


def test_a_peak_that_is_being_read_is_not_called_unknown() -> None:
    def shown(made: Rewards) -> str:
        return "\n".join(map(plain, rewards(Picture(rewards=made), 60, rows=0, decimals=2)))

    known = Rewards(mean=Reading(3.0))
    assert "Peak - (not known here)" in shown(known)
    awaited = shown(replace(known, is_peak_awaited=True))
    assert "Peak -" in awaited
    assert "not known" not in awaited
