"""Cells, literal names and numbers as text."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unilab_sidecar.charting import block_charts as charts
from unilab_sidecar.drawing import formatting
from unilab_sidecar.drawing.text import (
    Line,
    Segment,
    Style,
    beside,
    clean,
    clip,
    filled,
    fit,
    left,
    line_width,
    merged,
    width_of,
)


@pytest.mark.parametrize(
    ("text", "cells"), [("中文字", 6), ("\N{GRINNING FACE}", 2), ("e\u0301", 1), ("\u200b", 0)]
)
def test_width_is_counted_in_cells(text: str, cells: int):
    assert width_of(text) == cells


def test_names_are_cut_on_cell_boundaries():
    assert fit("中文字标", 5) == "中文…"
    assert left("损失函数值x", 14) == "损失函数值x   "


@pytest.mark.parametrize("name", ["[/x]", "reward[left]", "a[0]", "[@click=app.quit]q"])
def test_brackets_are_literal(name: str):
    assert clean(name) == name


def test_nothing_that_a_terminal_acts_on_survives():
    shown = clean("a\x1b]52;c;aGk=\x07b\r\n\t\x9b\u202e\u2028\ud800")
    assert shown == r"a\x1b]52;c;aGk=\x07b\r\n\t\x9b\u202e\u2028" + "\ufffd"


@given(st.text(), st.integers(-2, 40))
def test_cut_text_never_exceeds_its_cells(text: str, cells: int):
    shown = fit(clean(text), cells)
    assert width_of(shown) <= max(cells, 0)
    assert width_of(left(clean(text), max(cells, 0))) == max(cells, 0)


@given(st.lists(st.text(max_size=12), max_size=6), st.integers(0, 40))
def test_lines_are_clipped_and_filled_to_the_cell(texts: list[str], cells: int):
    parts = tuple(Segment(clean(text)) for text in texts)
    assert line_width(clip(parts, cells)) <= cells
    assert line_width(filled(parts, cells)) == cells


STYLES = st.sampled_from(["plain", "dim", "value"])


@given(st.lists(st.tuples(st.text(" ab中", max_size=4), STYLES), max_size=8))
def test_merged_lines_look_the_same_in_fewer_segments(parts: list[tuple[str, Style]]):
    def seen(line: Line) -> list[tuple[str, Style | None]]:
        return [(c, None if c == " " else part.style) for part in line for c in part.text]

    before = tuple(Segment(text, style) for text, style in parts)
    after = merged(before)
    assert seen(after) == seen(before)
    assert len(after) <= len(before)


def test_blocks_of_different_heights_stand_beside_each_other():
    rows = beside([[(Segment("a"),)], [(Segment("b"),), (Segment("c"),)]], [3, 2], 1)
    assert [line_width(row) for row in rows] == [6, 6]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"), (-0.0, "0"), (4.0, "4"), (1.5, "1.500"), (-28.4812, "-28.48"),
        (0.0316, "0.0316"), (3e-4, "0.000300"), (123456.0, "123,456"), (1.5e9, "1.50e+09"),
        (3000.0, "3,000"), (1234.5, "1,234"), (12345.6, "12,346"), (9999.7, "10,000"),
        (-9.26e-4, "-0.000926"), (-1.02e-3, "-0.00102"), (9.26e-5, "9.26e-05"), (0.316, "0.3160"),
        (math.nan, "NaN"), (math.inf, "inf"), (-math.inf, "-inf"),
    ],
)  # fmt: skip
def test_values_read_well(number: float, text: str):
    assert formatting.value(number) == text


@given(st.floats())
def test_every_number_has_a_short_text(number: float):
    assert len(formatting.value(number)) <= 10
    for form in (formatting.whole, formatting.rate, formatting.milliseconds, formatting.percent):
        assert form(number)
    assert formatting.duration(number)
    assert formatting.age(number)
    assert formatting.long_ago(number)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)), st.integers(0, 60),
       st.integers(0, 9))  # fmt: skip
def test_charts_keep_their_frame(values: list[float], cells: int, height: int):
    drawn = charts.area(values, cells, height)
    assert len(drawn) == height
    assert all(len(row) <= cells for row in drawn)


def test_a_flat_course_is_a_line_in_the_middle():
    assert charts.sparkline([3.0, 3.0, 3.0], 10) == "▄▄▄"
    assert charts.sparkline([1.0, 2.0, 3.0], 10)[0] == "▁"
    assert charts.sparkline([1.0, 2.0, 3.0], 10)[-1] == "█"


@given(st.floats(), st.integers(0, 50))
def test_bars_take_exactly_their_cells(fraction: float, cells: int):
    assert len(charts.bar(fraction, cells)) == cells
    assert sum(map(len, charts.gauge(fraction, cells))) == cells


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (0.4, "0 µs"),
        (882.4, "882 µs"),
        (999.4, "999 µs"),
        (999.6, "1.00 ms"),
        (1_254.0, "1.25 ms"),
        (9_996.0, "10.0 ms"),
        (29_882.0, "29.9 ms"),
        (124_900.0, "125 ms"),
        (12_000_000.0, "12,000 ms"),
        (math.nan, "NaN"),
    ],
)
def test_a_call_that_takes_long_is_told_in_milliseconds(microseconds: float, text: str):
    assert formatting.short_time(microseconds) == text
