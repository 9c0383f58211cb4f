"""Charts as text: what is drawn where, ticks and labels, every size, strange values."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from chart_runs import bins_of
from hypothesis import given, settings
from hypothesis import strategies as st

from unilab_sidecar.charting.axes import (
    scale_of,
)
from unilab_sidecar.charting.bins import Bins, Course, Span, XAxis
from unilab_sidecar.charting.columns import columns_of, segments
from unilab_sidecar.charting.drawing import Curve, Frame, draw, plot_cells
from unilab_sidecar.charting.value_range import value_range
from unilab_sidecar.drawing.text import line_width, plain

NAN, INF = math.nan, math.inf


def drawn(
    values: Sequence[float] | Bins,
    width: int = 34,
    rows: int = 7,
    *,
    log: bool = False,
    span: Span | None = None,
    axis: XAxis = "iteration",
    unicode: bool = True,
    cursor: int | None = None,
    max_bins: int = 4096,
) -> list[str]:
    if isinstance(values, Bins):
        bins = values
    else:
        course = Course(max_bins)
        course.extend(bins_of(values))
        bins = course.bins()
    shown = span or bins.span(axis)
    assert shown is not None
    scale = value_range([bins], axis, shown, log=log)
    assert scale is not None
    frame = Frame(width, rows, axis, shown, scale, cursor, unicode=unicode)
    return [plain(line).rstrip() for line in draw([Curve(bins)], frame)]


def test_a_straight_line():
    assert drawn([float(number) for number in range(26)]) == [
        "        │                    ⢀⣀⠤⠔⠊",
        "     20 ┤               ⢀⡠⠤⠒⠊⠁",
        "        │          ⣀⡠⠤⠒⠉⠁",
        "        │     ⣀⠤⠔⠒⠉",
        "      0 ┤⣀⠤⠒⠊⠉",
        "        └─────────┴─────────┴─────",
        "                 10        20",
    ]


def test_a_spike_is_a_column_of_its_own_beside_the_mean():
    values = np.ones(60_000)
    values[40_000] = 100.0
    lines = drawn(values.tolist(), 60, 8, max_bins=256)
    body = [line[9:] for line in lines[:-2]]
    column = 40_000 * plot_cells(60) // 60_000
    for row in body[:-1]:
        assert row.strip()
        # As wide as the bin that holds it.
        assert not row[: column - 2].strip()
        assert not row[column + 3 :].strip()
    assert len(body[-1]) == plot_cells(60)
    assert " " not in body[-1]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 7_998), st.integers(0, 7_999), st.integers(1, 7_999), st.integers(20, 120))
def test_a_spike_is_visible_in_every_window_that_holds_it(at, before, width, columns):
    values = np.zeros(8_000)
    values[at] = 1.0
    course = Course(128)
    course.extend(bins_of(values))
    low = max(at + 1 - min(before, width), 1)
    span = Span(float(low), float(low + width))
    bins = course.bins()
    scale = value_range([bins], "iteration", span)
    assert scale is not None
    assert scale.high >= 1
    lines = draw([Curve(bins)], Frame(columns, 8, "iteration", span, scale))[:2]
    assert any(plain(one)[9 if columns >= 24 else 0 :].strip() for one in lines)


def test_a_spike_at_the_very_edge_is_drawn():
    for place in (0, 999):
        values = [0.0] * 1000
        values[place] = 1.0
        body = [line[9:] for line in drawn(values, 80, 8)[:-2]]
        assert all(row.strip() for row in body)
        at = 0 if place == 0 else plot_cells(80) - 1
        assert body[0][at] != " "
        assert len(body[0].strip()) == 1


def test_a_band_lies_around_its_line():
    values = [float(number % 10) for number in range(1000)]
    assert drawn(values, 30, 9) == [
        "     10 ┤⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀",
        "        │⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕",
        "        │⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕",
        "      5 ┤⢀⣀⡄⣠⡠⣀⡄⣠⡠⣀⡄⣀⣠⢀⡄⣀⣠⢀⡄⣀⡠",
        "        │⠁⢕⠈⢕⠁⢕⠈⢕⠁⢕⠈⢕⠁⠁⠈⢕⠁⠁⠈⢕⢕",
        "        │⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕⢕",
        "      0 ┤⣕⣕⣕⣕⣕⣕⣕⣕⣕⣕⣕⣕⣕⣕⣕⣕⣕⣕⣕⣕⣕",
        "        └──────────┴─────────┴",
        "                  500     1000",
    ]


def test_a_column_holds_lowest_mean_and_highest_of_what_is_in_it():
    values = np.random.default_rng(5).normal(10, 3, 1000)
    bins = Bins(bins_of(values))
    scale = scale_of(-100, 100)
    columns = columns_of(bins, "iteration", Span(1, 1000), 50, scale)
    assert (columns.low <= columns.line).all()
    assert (columns.line <= columns.high).all()
    back = columns.high * 200 - 100
    assert back.max() == pytest.approx(values.max())
    assert (columns.low * 200 - 100).min() == pytest.approx(values.min())


def test_one_value_is_a_dot_in_the_middle():
    lines = drawn([3.0])
    assert [line[9:].strip() for line in lines[:-2]] == ["", "", "⠠", "", ""]
    assert lines[2].index("⠠") == 9 + plot_cells(34) // 2


def test_a_constant_is_a_line_in_the_middle():
    lines = drawn([5.0] * 50)
    assert [line[9:].strip() for line in lines[:-2]] == ["", "", "⠤" * 25, "", ""]


def test_nan_and_infinities_are_letters_on_the_rule_and_gaps_in_the_line():
    values = [1.0] * 100
    values[20:24] = [NAN] * 4
    values[60] = INF
    values[61] = -INF
    values[80], values[81] = NAN, INF
    lines = drawn(values, 109, 5)
    rule = lines[-2][9:]
    assert rule[20:24] == "NNNN"
    assert rule[60:62] == "II"
    assert {rule[80], rule[81]} <= {"N", "I", "X"}
    line = next(row for row in lines if "⠒" in row or "⠤" in row)[9:]
    assert line[21:23].strip() == ""
    assert line[19] != " "
    assert line[24] != " "


def test_a_whole_course_of_nan_has_no_scale():
    bins = Bins(bins_of([NAN, INF]))
    assert value_range([bins], "iteration", Span(1, 2)) is None


def test_a_logarithmic_axis_is_straight_for_what_grows_by_factors():
    assert drawn([10.0**number for number in range(-3, 5)], 40, 9, log=True) == [
        "        │                           ⣀⠤⠒⠉",
        "   1000 ┤                      ⢀⡠⠤⠒⠉",
        "        │                  ⣀⠤⠒⠊⠁",
        "      1 ┤             ⣀⡠⠔⠊⠉",
        "        │        ⢀⡠⠤⠒⠉",
        "        │    ⣀⠤⠒⠊⠁",
        "  0.001 ┤⣀⠤⠒⠉",
        "        └─────────────────┴─────────────",
        "                          5",
    ]


def test_what_is_not_positive_has_no_place_on_a_logarithmic_axis():
    mixed = Bins(bins_of([-1.0, 0.0, 10.0, 1000.0]))
    scale = value_range([mixed], "iteration", Span(1, 4), log=True)
    assert scale is not None
    assert (scale.low, scale.high) == (10, 1000)


@pytest.mark.parametrize("above", [0, 5])
def test_an_axis_is_linear_where_a_logarithm_would_leave_nearly_everything_out(above: int):
    bins = Bins(bins_of([2.0] * above + [-1.0, 0.0, -5.0] * 20))
    scale = value_range([bins], "iteration", Span(1, 65), log=True)
    assert scale == value_range([bins], "iteration", Span(1, 65))
    # Where only others are looked at, it may be had.
    other = value_range([bins], "iteration", Span(1, 4), log=True)
    assert other is not None
    assert other.log == (above > 0)


def test_without_unicode_there_is_none():
    values = [math.sin(number / 8) for number in range(300)]
    values[100] = NAN
    for cursor in (None, 10):
        text = "\n".join(drawn(values, 60, 10, unicode=False, cursor=cursor))
        assert text.isascii()
    assert {"'", "-", "_", "!", "^", "N"} <= set(text)


def test_between_two_values_the_line_goes_on():
    values = [0.0, 100.0, 0.0, 100.0]
    assert all(line[9:].strip() for line in drawn(values, 60, 12, span=Span(1.0, 2.0))[:-2])
    inside = [line[9:] for line in drawn(values, 60, 12, span=Span(1.25, 1.75))[:-2]]
    # From a quarter to three quarters of the way.
    assert [bool(line.strip()) for line in inside][:7] == [False] * 2 + [True] * 5
    assert not inside[-1].strip()
    assert len(inside[2]) == plot_cells(60)


def test_the_cursor_is_a_line_through_its_column():
    lines = drawn([float(number) for number in range(50)], 59, 8, cursor=30)
    assert sum(line[9 + 30 : 10 + 30] == "│" for line in lines) >= 4
    assert lines[-2][9 + 30] == "▲"


def test_an_attempt_begins_a_line_of_its_own_and_lies_in_front():
    course = Course()
    course.extend(bins_of(np.full(50, 1.0)))
    course.extend(bins_of(np.full(40, 9.0), attempt=2, first=30))
    bins = course.bins()
    frame = Frame(79, 8, "iteration", Span(1, 69), scale_of(0, 10))
    lines = draw([Curve(bins, style="series1")], frame)
    styles = {part.style for line in lines for part in line if any(c > "\u2800" for c in part.text)}
    assert styles == {"label", "series1"}
    # Nothing leads from the end of the first attempt to the begin of the second.
    assert not plain(lines[3])[9:].strip()
    # Also without colours it is seen where the second one began.
    rule = plain(lines[-2])[9:]
    assert rule[29 * 70 // 68] == "2"
    assert sum(character.isalnum() for character in rule) == 1


def test_many_attempts_are_drawn_as_few_segments():
    course = Course()
    for attempt in range(1, 40):
        course.extend(bins_of(np.ones(10), attempt=attempt))
    parts = segments(course.bins(), 8)
    assert len(parts) == 8
    assert sum(len(part) for part in parts) == 390


def test_an_axis_that_nobody_knows_is_empty():
    table = bins_of([1.0, 2.0])
    table[11:13] = NAN
    bins = Bins(table)
    assert bins.span("env_steps") is None
    frame = Frame(40, 6, "env_steps", Span(0, 10), scale_of(0, 3))
    assert not any(plain(line)[9:].strip() for line in draw([Curve(bins)], frame)[:-2])


@pytest.mark.parametrize("values", [[1e308, -1e308], [5e-324, 1e-323], [1e308] * 3, [0.0, -0.0],
                                    [1e-300, 1e300], [NAN, 1.0, INF, -INF], [1.0, 1 + 2e-16],
                                    [-1e308, 1e308, 0.0, 5e-324], [-220.0, 1e308]])  # fmt: skip
@pytest.mark.parametrize("log", [False, True])
def test_extreme_values_are_drawn(values: list[float], log: bool):
    bins = Bins(bins_of(values))
    span = Span(1, len(values))
    scale = value_range([bins], "iteration", span, log=log)
    if scale is not None:
        for rows in (1, 2, 4, 9):
            lines = draw([Curve(bins)], Frame(60, rows, "iteration", span, scale))
            assert len(lines) == rows
            assert any(character > "\u2800" for line in lines for character in plain(line))


def test_what_is_far_outside_the_scale_is_at_its_edge():
    bins = Bins(bins_of([1e308, 0.0, -1e308]))
    frame = Frame(60, 9, "iteration", Span(1, 3), scale_of(-1e-300, 1e-300))
    body = [plain(line)[9:] for line in draw([Curve(bins)], frame)[:-2]]
    assert body[0][0] != " "
    assert body[-1][-1] != " "


def test_every_size_is_exactly_filled():
    bins = Bins(bins_of(np.cumsum(np.random.default_rng(2).normal(0, 1, 300))))
    for width in (1, 2, 3, 7, 12, 23, 24, 25, 40, 79, 250):
        for rows in (1, 2, 3, 4, 5, 9, 30):
            for axis in ("iteration", "time"):
                span = bins.span(axis)
                assert span is not None
                scale = value_range([bins], axis, span)
                assert scale is not None
                for unicode in (True, False):
                    frame = Frame(width, rows, axis, span, scale, 3, unicode=unicode)
                    lines = draw([Curve(bins, "a")], frame)
                    assert len(lines) == rows
                    assert all(line_width(line) <= width for line in lines)


@settings(max_examples=80, deadline=None)
@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9), st.integers(24, 200))
def test_labels_stand_apart_and_at_their_places(low, width, columns):
    bins = Bins(bins_of([1.0, 2.0]))
    for axis in ("iteration", "time"):
        span = Span(low, low + width)
        frame = Frame(columns, 8, axis, span, scale_of(low, low + width))
        lines = [plain(line) for line in draw([Curve(bins)], frame)]
        words = lines[-1].split("  ")
        assert len(lines[-1]) <= columns
        assert lines[-1].strip() == "" or all(word.strip() for word in words if word)
        labels = [line[:7] for line in lines[:-2]]
        assert all(len(label) == 7 for label in labels)


def test_an_axis_in_percent_opens_the_curves_own_scales_alike():
    bins = Bins(bins_of([5.0, 10.0]))
    own = scale_of(5, 10)
    whole = scale_of(0, 100)
    frame = Frame(60, 9, "iteration", Span(1, 2), whole, percent=True, ends=True)
    body = [plain(one) for one in draw([Curve(bins, "a", scale=own)], frame)]
    rows = [row for row, text in enumerate(body) if text.lstrip().startswith(("0 ", "0%", "100%"))]
    assert body[rows[0]].rstrip().endswith("a")
    assert body[rows[-1]][9] > "\u2800"


def test_no_line_leads_over_what_a_logarithm_has_no_place_for():
    values = [1.0] * 20 + [-1.0] * 60 + [2.0] * 20
    bins = Bins(bins_of(values))
    span = Span(1, 100)
    scale = value_range([bins], "iteration", span, log=True)
    assert scale is not None
    line_of = columns_of(bins, "iteration", span, 100, scale).line
    assert np.isfinite(line_of[:20]).all()
    assert np.isnan(line_of[20:80]).all()
    assert np.isfinite(line_of[80:]).all()
    linear = value_range([bins], "iteration", span)
    assert linear is not None
    assert np.isfinite(columns_of(bins, "iteration", span, 100, linear).line).all()
