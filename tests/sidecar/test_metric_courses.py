"""Courses of metrics beside their values: what they keep, how rarely they change, where they stand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from sample_run import SampleRun
from screen_text import find
from series_records import picture as still_picture
from series_records import update

from unilab_sidecar.charting.small_curve import curve
from unilab_sidecar.drawing.glyphs import ascii_lines
from unilab_sidecar.drawing.text import plain
from unilab_sidecar.looking.viewing import ViewState
from unilab_sidecar.picture import Note, Picture
from unilab_sidecar.series import Series
from unilab_sidecar.values.metric_courses import (
    MOST_OTHERS,
    MOST_POINTS,
    MOST_TAGS,
    STRETCH_NS,
    MetricCourses,
)
from unilab_sidecar.values.of_tags import MOST_KEY_SETS
from unilab_sidecar.views.overview import layout, view

TAGS = ("Loss/actor", "Loss/critic", "Perf/total_fps", "Custom/mine")


def given(courses: MetricCourses, values: list[list[float]], step_ns: int, at_ns: int = 0) -> None:
    for number, row in enumerate(values):
        courses.add(number + 1, at_ns + number * step_ns, TAGS, np.array(row))


def test_a_stretch_of_two_seconds_is_one_point_its_mean():
    courses = MetricCourses()
    given(courses, [[float(n), -float(n), 9.0, 9.0] for n in range(10)], STRETCH_NS // 4)
    assert courses.all() == {
        "Loss/actor": (2.0, 6.5),
        "Loss/critic": (-2.0, -6.5),
        "Custom/mine": (9.0, 9.0),
    }
    assert courses.first == 1
    same = courses.all()
    courses.add(11, 10 * STRETCH_NS // 4, TAGS, np.ones(4))
    assert courses.all() is same


def test_a_long_run_keeps_a_bounded_course_of_all_of_it_and_changes_ever_more_rarely():
    courses = MetricCourses()
    count = 40 * MOST_POINTS
    changes = 0
    for number in range(count):
        before = courses.all()
        courses.add(number, number * STRETCH_NS, TAGS, np.array([float(number), 1.0, 0, 0]))
        changes += courses.all() is not before
        assert len(courses.all().get("Loss/actor", ())) <= MOST_POINTS
    points = courses.all()["Loss/actor"]
    assert len(points) >= MOST_POINTS // 2
    assert list(points) == sorted(points)
    assert points[0] < count / 32
    assert points[-1] > count * 0.9
    assert changes < 5 * MOST_POINTS


def test_what_is_not_finite_is_a_gap_and_warns_nobody():
    courses = MetricCourses()
    rows = [[1.0, 1.0, 0, 0], [math.inf, 2.0, 0, 0], [-math.inf, 3.0, 0, 0], [math.nan, 4.0, 0, 0]]
    given(courses, [row for row in rows for _ in range(2)], STRETCH_NS // 2)
    given(courses, [[5.0, 5.0, 0, 0]] * (2 * MOST_POINTS), STRETCH_NS, 8 * STRETCH_NS)
    assert set(courses.all()["Loss/actor"]) <= {1.0, 5.0}
    assert all(math.isfinite(one) for points in courses.all().values() for one in points)


def test_many_tags_many_key_sets_and_another_clock_stay_within_bounds():
    courses = MetricCourses()
    for number in range(300):
        tags = tuple(f"Loss/{place}" for place in range(number % 97 + 1))
        at_ns = (number % 50) * STRETCH_NS
        courses.add(number, at_ns, tags, np.ones(len(tags)))
        courses.supplement(("Policy/mean_std",), np.array([0.5]))
    assert 0 < len(courses.all()) <= MOST_TAGS
    assert len(courses._key_sets) <= 2 * MOST_TAGS


def text(picture: Picture, columns: int, rows: int) -> str:
    return "\n".join(plain(line) for line in layout(picture, columns, rows).lines)


@pytest.fixture(scope="module")
def picture() -> Picture:
    run, series = SampleRun(), Series()
    series.add(run.batch(run.open_attempt(), *[run.update() for _ in range(900)]))
    return series.picture()


def dotted(row: str) -> bool:
    return any("\u2800" < character < "\u2900" for character in row[:70])


def test_key_sets_that_never_come_again_are_not_kept_until_the_next_point():
    courses = MetricCourses()
    for number in range(1000):
        tags = ("Loss/actor", f"Custom/{number}")
        courses.add(number, number, tags, np.array([float(number % 2), 1.0]))
        assert len(courses._key_sets) <= MOST_KEY_SETS
    courses.add(1000, STRETCH_NS, TAGS[:1], np.array([0.5]))
    assert courses.all()["Loss/actor"] == (pytest.approx(0.5),)


def test_a_tall_wide_screen_has_the_course_of_each_metric_beside_its_value(picture: Picture):
    screen = text(picture, 160, 48)
    rows = screen.splitlines()
    for label in ("Entropy", "Critic", "Mean Std", "Target Q Max", "Ingress Drops"):
        assert dotted(rows[find(screen, label)[0]]), label
    assert "since iter 1 " in rows[find(screen, "Losses and policy")[0]]
    assert len(rows) <= 46
    for columns, lines in ((120, 40), (160, 40)):
        other = text(picture, columns, lines)
        rows = other.splitlines()
        for label in ("Entropy", "Critic", "Mean Std"):
            assert dotted(rows[find(other, label)[0]]), label
        # Two diagnostics in a row pay for them: nothing else loses its place.
        assert find(other, "Target Q Max")[0] == find(other, "Target Q Min")[0]
        assert find(other, "since iter 1 ")[0] == find(other, "Losses and policy")[0]
        assert len(rows) <= lines - 2
    for columns, lines in ((100, 30), (80, 24)):
        other = text(picture, columns, lines)
        without = text(replace(picture, courses={}), columns, lines)
        # Only the chart of the rewards says it.
        assert other.count("since iter") == without.count("since iter") == 1
        assert len(other.splitlines()) == len(without.splitlines())


def test_a_moment_of_the_past_has_the_courses_up_to_it():
    run, series = SampleRun(), Series()
    early: Picture | None = None
    for iteration in range(1, 2001):
        series.add(run.batch(run.update()))
        if iteration == 300:
            early = series.picture()
    assert early is not None
    past = series.with_courses_until(replace(early, courses={}, courses_from=None))
    assert past.courses_from == 1
    for tag, whole in series.picture().courses.items():
        course = past.courses[tag]
        assert 0 < len(course) < len(whole)
        assert whole[: len(course)] == course
    # Of 2,000 iterations 300 have been then.
    whole = series.picture().courses["Loss/critic"]
    assert abs(len(past.courses["Loss/critic"]) / len(whole) - 300 / 2000) < 0.05
    # Another attempt's iterations are no place in this one's courses.
    assert not series.with_courses_until(replace(early, attempt=7, courses={})).courses


def test_metrics_alone_have_courses_over_the_whole_screen(picture: Picture):
    for columns, lines, height in ((120, 40, 2), (100, 30, 1), (80, 24, 1), (160, 80, 4)):
        state = ViewState(focus="metrics", zoomed=True)
        screen = [plain(row) for row in view(picture, None, state, columns, lines).lines]
        at = next(at for at, row in enumerate(screen) if row.startswith("Entropy"))
        after = next(at for at, row in enumerate(screen) if row.startswith("Actor"))
        assert after - at == height
        assert len(screen) <= lines - 2
        reach = max(len(row.rstrip()) for row in screen[at:after])
        assert dotted(screen[at])
        assert reach > columns - 6


def test_an_event_or_an_alert_more_changes_nothing_of_the_metrics(picture: Picture):
    bare = [row[:64] for row in text(replace(picture, notes=()), 160, 48).splitlines()[4:24]]
    notes = tuple(Note("status", f"step {i}", 1.0) for i in range(40))
    assert [row[:64] for row in text(replace(picture, notes=notes), 160, 48).splitlines()[4:24]] == bare  # fmt: skip
    alarmed = replace(picture, notes=notes, ranks_reported=1, ranks_expected=2, missing_ranks=(1,))
    lines = text(alarmed, 160, 48).splitlines()
    assert [row[:64] for row in lines[5:25]] == bare
    assert len(lines) <= 46
    # Before the first points there are, the numbers stand where they will stand.
    fresh = text(replace(picture, courses={}, notes=()), 160, 48).splitlines()[5:24]
    assert [row[:33] for row in fresh] == [row[:33] for row in bare[1:]]


def test_a_curve_is_flat_in_the_middle_and_dim_and_reads_without_unicode():
    flat = curve([1.31, 1.31 + 1e-15, 1.31], 12, 1, flat="dim")[0]
    assert {part.style for part in flat} == {"dim"}
    (rising,) = ascii_lines(curve([0.0, 1.0, 2.0, 3.0], 12, 1))
    told = plain(rising)
    assert told.startswith("_")
    assert told.endswith("'")
    assert "-" in told
    assert plain(ascii_lines([flat])[0]) == "-" * 12
    assert curve([-1.7e308, 1.7e308], 5, 2)


@pytest.mark.parametrize("size", [(1, 1), (120, 200), (160, 48), (300, 100), (200, 20)])
def test_any_size_is_survived_with_courses(picture: Picture, size: tuple[int, int]):
    strange = replace(picture, courses={m.tag: (1.0, -1e308, 1e308) for m in picture.losses})
    assert layout(strange, *size).lines


def test_of_two_rows_a_flat_curve_has_the_one_with_the_label():
    upper, lower = curve([2.0, 2.0], 6, 2)
    assert plain(upper).strip()
    assert not plain(lower).strip()


def test_others_have_courses_that_take_no_place_from_losses():
    courses = MetricCourses()
    mine, losses = tuple(f"mine/{n:04}" for n in range(1000)), tuple(f"Loss/{n}" for n in range(99))
    for number in range(4):
        tags = mine if number % 2 else (*mine, *losses)
        courses.add(number, number * STRETCH_NS, tags, np.ones(len(tags)))
    known = courses.all()
    assert sum(tag.startswith("mine/") for tag in known) == MOST_OTHERS
    assert sum(tag.startswith("Loss/") for tag in known) == MOST_TAGS
    assert "mine/0000" in known


def test_other_metrics_have_courses_where_that_pushes_nothing_off_the_screen():
    values = {f"mine/{n}": float(n) for n in range(12)}
    shown = still_picture(
        *(update(n, {tag: v * n for tag, v in values.items()}) for n in range(1, 60))
    )
    for columns, rows in ((120, 40), (200, 50)):
        drawn = [row for row in text(shown, columns, rows).splitlines() if "mine/" in row]
        assert len(drawn) <= 6
        assert all(dotted(row) for row in drawn)
        assert all(len(row.rstrip()) <= columns - 4 for row in drawn)
    low = [row for row in text(shown, 120, 20).splitlines() if "mine/" in row]
    assert low
    assert not any(dotted(row) for row in low)
