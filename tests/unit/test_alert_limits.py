"""The numbers of the aggregator's own alerts, each from both sides: none moves without a test."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from unilab_metrics.aggregate.alerting.change import Change
from unilab_metrics.aggregate.alerting.lagging import Lagging
from unilab_metrics.aggregate.alerting.stalls import Seen, Stalls
from unilab_schema.control import BackendStatus
from unilab_schema.reward_collapse import CollapseState, take_reward

NOBODY: frozenset[str] = frozenset()
CLIMBED = [0.0] * 100 + [100.0] * 100
"""Two hundred reports: a progress of a hundred without noise."""
MAJORITY = 13
"""So many of 25 make the median."""


def changes(rewards: Iterable[float], step_s: float = 1.0) -> list[tuple[bool, int]]:
    """What a course changes, and with its how manieth report."""
    state = CollapseState()
    told = [
        (take_reward(state, reward, round(number * step_s * 1e9)), number)
        for number, reward in enumerate(rewards, 1)
    ]
    return [(change.began, number) for change, number in told if change is not None]


def test_a_collapse_is_fifty_reports_below_of_the_median_of_twenty_five() -> None:
    assert changes(CLIMBED + [0.0] * 100) == [(True, 200 + MAJORITY + 49)]


def test_a_collapse_lasts_ten_seconds() -> None:
    assert changes(CLIMBED + [0.0] * 200, 0.1) == [(True, 200 + MAJORITY + 100)]


def test_within_the_first_two_hundred_reports_nothing_is_said() -> None:
    assert changes([0.0] * 30 + [100.0] * 70 + [0.0] * 200) == [(True, 200)]


@pytest.mark.parametrize(
    ("low", "begin", "is_told"),
    [
        # More than half of the progress.
        (50.0, 0.0, False), (49.9, 0.0, True),
        # More than a quarter of the peak's size.
        (75.0, 60.0, False), (74.9, 60.0, True),
    ],
)  # fmt: skip
def test_so_much_has_to_be_lost(low: float, begin: float, is_told: bool) -> None:
    course = [begin] * 100 + [100.0] * 100 + [low] * 100
    assert [began for began, _ in changes(course)] == [True] * is_told


@pytest.mark.parametrize(("low", "is_told"), [(40.0, False), (39.9, True)])
def test_more_than_six_deviations_have_to_be_lost(low: float, is_told: bool) -> None:
    noisy = [90.0, 100.0, 110.0] * 40
    assert [began for began, _ in changes([0.0] * 100 + noisy + [low] * 100)] == [True] * is_told


@pytest.mark.parametrize(("high", "is_over"), [(75.0, True), (74.9, False)])
def test_it_is_over_when_a_quarter_of_the_progress_is_missing(high: float, is_over: bool) -> None:
    told = changes(CLIMBED + [0.0] * 100 + [high] * 100)
    assert told[1:] == [(False, 300 + MAJORITY)] * is_over


def test_the_next_collapse_takes_as_long_as_the_first() -> None:
    told = changes(CLIMBED + ([0.0] * 100 + [100.0] * 100) * 2)
    assert told[2] == (True, 400 + MAJORITY + 49)


def test_a_collapse_that_is_over_for_one_report_begins_its_patience_anew() -> None:
    told = changes(CLIMBED + [0.0] * 100 + [100.0] * 12 + [0.0] * 12 + [100.0] + [0.0] * 100)
    assert told[1:] == [(False, 325), (True, 375)]


def test_a_clock_that_begins_anew_takes_no_collapse_away() -> None:
    state = CollapseState()
    times_s = [*range(1000, 1230), *range(100)]
    told = [
        number
        for number, (reward, now_s) in enumerate(
            zip(CLIMBED + [0.0] * 130, times_s, strict=True), 1
        )
        if take_reward(state, reward, now_s * 1_000_000_000) is not None
    ]
    assert told == [200 + MAJORITY + 49]


class Source:
    """One that is looked at once a second."""

    def __init__(self) -> None:
        self.stalls, self.now_s, self.frames = Stalls(), 0, 0

    def go(self, seconds: int, every_s: int = 0) -> list[int]:
        """Logs every so many seconds; how long nothing had come, when that was told."""
        told: list[int] = []
        for _ in range(seconds):
            self.now_s += 1
            self.frames += bool(every_s) and self.now_s % every_s == 0
            for change in self.look():
                silent_s = change.facts["silent_s"]
                assert isinstance(silent_s, float)
                told.append(round(silent_s))
        return told

    def look(self, heard_age_s: float = 0.0) -> list[Change]:
        seen = Seen("learner 0", self.frames, heard_age_s, 7)
        return self.stalls.look(float(self.now_s), [seen], NOBODY)


def test_a_stall_is_two_minutes_twenty_times_the_usual_and_three_times_the_longest() -> None:
    source = Source()
    assert source.go(60, 1) + source.go(500) == [120]
    source = Source()
    assert source.go(600, 30) + source.go(900) == [600]
    source = Source()
    assert source.go(60, 1) + source.go(99) + source.go(60, 1) + source.go(900) == [300]


def test_only_who_has_logged_ten_times_stalls() -> None:
    source = Source()
    # The first look is what it is counted from.
    assert source.go(10, 1) + source.go(500) == []
    source = Source()
    assert source.go(11, 1) + source.go(500) == [120]


def test_many_frames_at_once_were_no_pause_of_their_own() -> None:
    source = Source()
    assert source.go(60, 1) + source.go(99) == []
    source.frames += 100
    assert source.go(500) == [120]


@pytest.mark.parametrize(("age_s", "is_heard"), [(10.0, True), (10.1, False)])
def test_who_was_heard_ten_seconds_ago_is_alive(age_s: float, is_heard: bool) -> None:
    source = Source()
    assert source.go(60, 1) + source.go(119) == []
    source.now_s += 1
    (change,) = source.look(age_s)
    assert change.facts["is_heard"] is is_heard


def lag(lagging: Lagging, now_s: float, committed: int, held: int, *opened: str) -> list[bool]:
    """What a look changes for one writer that holds so many."""
    backend = BackendStatus("tensorboard", "running", held)
    return [one.began for one in lagging.look(now_s, committed, [backend], frozenset(opened))]


@pytest.mark.parametrize(("lacks", "told_s"), [(99, []), (100, [60])])
def test_a_writer_is_behind_by_a_hundred_updates_and_a_minute(
    lacks: int, told_s: list[int]
) -> None:
    lagging = Lagging()
    assert [now for now in range(61) if lag(lagging, now, 1000, 1000 - lacks)] == told_s


@pytest.mark.parametrize(("held", "has_caught_up"), [(1949, False), (1950, True)])
def test_a_writer_has_caught_up_with_what_was_there_five_seconds_ago(
    held: int, has_caught_up: bool
) -> None:
    lagging = Lagging()
    for now in range(100):
        lag(lagging, now, 1000 + 10 * now, 0, "writer of tensorboard")
    told = lag(lagging, 100, 2000, held, "writer of tensorboard")
    assert told == [False] * has_caught_up
