"""What never changes is a straight line, whatever its value and however many values there are."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from chart_runs import bins_of
from hypothesis import example, given, settings
from hypothesis import strategies as st

from unilab_sidecar.charting.axes import scale_of
from unilab_sidecar.charting.bins import Bins, Course, Span
from unilab_sidecar.charting.block_charts import area
from unilab_sidecar.charting.canvas import dot_rows
from unilab_sidecar.charting.columns import columns_of
from unilab_sidecar.charting.drawing import Curve, Frame, draw
from unilab_sidecar.charting.small_curve import curve
from unilab_sidecar.charting.value_range import value_range
from unilab_sidecar.drawing.text import plain
from unilab_sidecar.values.metric_courses import STRETCH_NS, MetricCourses
from unilab_sidecar.values.rewards import RewardCourse

GREATEST, LEAST = sys.float_info.max, 5e-324
FINITE = st.floats(allow_nan=False, allow_infinity=False)


def bins(value: float, updates: int, max_bins: int = 4096) -> Bins:
    made = Course(max_bins)
    made.extend(bins_of([value] * updates))
    return made.bins()


def rows_of(lines: list[str]) -> list[str]:
    """Those of the curve that are not blank, and what they consist of."""
    drawn = [line[9:].strip() for line in lines if "│" in line or "┤" in line]
    plain_rows = [line[9:].strip() for line in lines if "|" in line[:9] or line[8:9] == "+"]
    return [row for row in drawn or plain_rows[:-1] if row]


@settings(max_examples=60, deadline=None)
@given(FINITE, st.integers(1, 3_000), st.integers(4, 30), st.booleans(), st.booleans())
@example(-0.01, 685, 20, True, False)
@example(-0.01, 685, 20, False, False)
@example(GREATEST, 1_000, 12, True, False)
@example(-GREATEST, 1_000, 12, True, False)
@example(LEAST, 1_000, 12, True, False)
@example(LEAST, 1_000, 12, True, True)
@example(20 * LEAST, 1_000, 12, True, False)
@example(GREATEST, 1_000, 12, True, True)
def test_a_constant_is_charted_as_one_row(
    value: float, updates: int, rows: int, unicode: bool, log: bool
):
    shown = bins(value, updates, 1_024)
    span = shown.span("iteration")
    assert span is not None
    scale = value_range([shown], "iteration", span, log=log)
    assert scale is not None
    assert scale.low < scale.high
    frame = Frame(72, rows, "iteration", span, scale, unicode=unicode)
    lines = [plain(one) for one in draw([Curve(shown)], frame)]
    drawn = rows_of(lines)
    assert len(drawn) == 1
    assert len(set(drawn[0])) <= 2


@settings(max_examples=60, deadline=None)
@given(FINITE, st.integers(1, 3_000), st.integers(10, 200), st.floats(0, 0.9))
def test_the_means_of_a_constant_are_that_constant(
    value: float, updates: int, count: int, begin: float
):
    shown = bins(value, updates)
    span = Span(1 + begin * updates, 1.0 + updates)
    scale = scale_of(value, value)
    made = columns_of(shown, "iteration", span, count, scale)
    there = made.line[np.isfinite(made.line)]
    assert set(there.tolist()) <= set(scale.fraction(np.array([value])).tolist())


def test_values_that_differ_by_rounding_only_are_one_row():
    # Three ranks' mean is not the mean of two by the last bit.
    values = [0.1 + 0.2 if k % 3 else 0.3 for k in range(900)]
    made = Course()
    made.extend(bins_of(values))
    span = Span(1.0, 900.0)
    scale = value_range([made.bins()], "iteration", span)
    assert scale is not None
    for rows in range(4, 30):
        lines = draw([Curve(made.bins())], Frame(72, rows, "iteration", span, scale))
        assert len(rows_of([plain(one) for one in lines])) == 1


@given(st.integers(1, 60))
def test_between_two_rows_rounding_decides_nothing(dots: int):
    middle = (dots // 2 + 0.5) / dots
    near = np.array([middle, middle + 1e-12, middle - 1e-12])
    assert len(set(dot_rows(near, dots + 1).tolist())) == 1


@given(FINITE, st.integers(2, 300), st.integers(1, 40))
def test_a_constant_is_one_level_of_a_small_chart(value: float, count: int, cells: int):
    # Of subnormal numbers the last bit is a difference like any other.
    near = float(np.nextafter(value, 0.0)) if abs(value) > 1e-300 else value
    for values in ([value] * count, [value, near] * count):
        assert len(set("".join(area(values, cells, 1)))) == 1
        drawn = [plain(one).strip() for one in curve(values, cells, 3)]
        assert len([row for row in drawn if row]) == 1


@settings(max_examples=40, deadline=None)
@given(st.floats(-1e300, 1e300), st.integers(3, 400), st.integers(1, 7))
@pytest.mark.filterwarnings("error")
def test_the_course_of_a_constant_metric_is_flat(value: float, stretches: int, updates: int):
    courses = MetricCourses()
    tags, values = ("Loss/surrogate",), np.array([value])
    for k in range(stretches * updates):
        courses.add(k, k * STRETCH_NS // updates, tags, values)
    points = courses.all()["Loss/surrogate"]
    assert points
    drawn = [plain(one).strip() for one in curve(points, 20, 4)]
    assert len([row for row in drawn if row]) == 1


def test_a_reward_that_stands_still_is_a_flat_course_of_itself():
    course = RewardCourse()
    course.add(0.0)
    for _ in range(9_000):
        course.add(0.1)
    assert set(course.course().values[2:]) == {0.1}
