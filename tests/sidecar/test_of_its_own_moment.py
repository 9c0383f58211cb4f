"""What is shown of a moment is of that moment: courses after a rewinding restart, the peak, the run's
own lines beside tags of the same names, and what two views keep."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from msgspec import structs
from series_records import SAC, head, picture, update

from unilab_metrics.subscribe.history import HistoryRecord
from unilab_schema.known_names import MEAN_REWARD
from unilab_schema.updates import AttemptOpened
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.looking.saved_view import KeptView, load_saved
from unilab_sidecar.looking.viewing import ViewState
from unilab_sidecar.printed.metric_lines import MetricTeller
from unilab_sidecar.series import Series
from unilab_sidecar.values.metric_courses import STRETCH_NS, MetricCourses

LOSS = ("Loss/x",)


def logged(courses: MetricCourses, iterations: range, value: float, began: int) -> None:
    for number, iteration in enumerate(iterations):
        at_ns = (began + number) * STRETCH_NS // 4
        courses.add(iteration, at_ns, LOSS, np.array([value]))


def test_courses_at_a_moment_after_a_restart_have_both_attempts_up_to_there() -> None:
    courses = MetricCourses()
    logged(courses, range(60), 1.0, 0)
    courses.begin_attempt()
    logged(courses, range(20, 80), 100.0, 60)
    whole = courses.until(79)["Loss/x"]
    assert set(whole) == {1.0, 100.0}, "no point is of both"
    before, after = whole.index(100.0), len(whole)
    for iteration in (20, 45, 60, 79):
        points = courses.until(iteration)["Loss/x"]
        assert points[:before] == (1.0,) * before
        assert points == whole[: len(points)]
    assert before < len(courses.until(45)["Loss/x"]) < after
    # Long after, points stand for more, and those of before are still all there.
    logged(courses, range(80, 1000), 100.0, 120)
    assert 1.0 in courses.until(30)["Loss/x"]


def test_a_restart_begins_a_point_of_its_own_on_the_screen_too() -> None:
    series = Series()
    first = tuple(update(n, {"Loss/x": 1.0}, sealed_s=n / 4) for n in range(1, 40))
    opened = HistoryRecord(40, AttemptOpened(2, 0, SAC), ())
    second = tuple(
        update(n, {"Loss/x": 100.0}, sealed_s=n / 4, iteration=n - 30, attempt=2)
        for n in range(41, 80)
    )
    series.add(Batch((*first, opened, *second), head(20.0, attempt=2), connected=True))
    assert set(series.picture().courses["Loss/x"]) == {1.0, 100.0}


def test_a_peak_that_is_announced_before_its_iteration_is_told_with_it() -> None:
    series = Series()
    series.add(Batch((update(1, {MEAN_REWARD: 1.0}),), head(1.0), connected=True))
    ahead = structs.replace(head(3.0), update=3, best_mean_reward=9.0)
    series.add(Batch((update(2, {MEAN_REWARD: 2.0}),), ahead, connected=True))
    assert series.picture().rewards.peak == 2.0
    series.add(Batch((update(3, {MEAN_REWARD: 9.0}),), ahead, connected=True))
    assert series.picture().rewards.peak == 9.0


def test_a_peak_of_before_this_viewer_is_told_as_soon_as_it_has_read_up_to_there() -> None:
    series = Series()
    told = structs.replace(head(3.0), update=900, best_mean_reward=9.0)
    series.add(Batch((update(901, {MEAN_REWARD: 2.0}),), told, connected=True))
    assert series.picture().rewards.peak == 9.0


def test_tags_with_names_of_the_run_stand_beside_them_and_are_said_once() -> None:
    shown = picture(update(7, {"iteration": 0.5, "state": 2.0, "Loss/x": 3.0}))
    teller = MetricTeller(0.0)
    first = [line.rsplit(" ", 1)[0] for line in teller.tell(shown, 0.0, is_over=False)]
    assert {"iteration 7", "tag/iteration 0.5", "tag/state 2", "Loss/x 3"} <= set(first)
    assert teller.tell(shown, 1.0, is_over=False) == []


def test_a_view_that_ends_later_keeps_what_another_one_has_kept(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    here = replace(picture(update(1, {"b": 1.0})), run=SAC, run_dir_there="/logs/sac/a/1")
    there = replace(here, run_dir_there="/logs/sac/b/1")
    later, earlier = KeptView(environ), KeptView(environ)
    of_later = later.of_run(ViewState(), there)
    of_earlier = earlier.of_run(ViewState(), here)
    earlier.keep(replace(of_earlier, view="ranks", theme="light"), "dark")
    later.keep(replace(of_later, view="bus", theme="dark"), "dark")
    saved = load_saved(environ)
    assert saved.theme == "light"
    assert {place.view for place in saved.projects.values()} == {"ranks", "bus"}
