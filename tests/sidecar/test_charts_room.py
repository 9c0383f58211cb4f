"""The charts' room: every size, charts beside each other and alone, wide characters and ASCII."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from chart_runs import store_of
from chart_screens import NAMES, RISING, screen, three_courses

from unilab_sidecar.charting.panes import ChartData
from unilab_sidecar.charting.picker import Picker
from unilab_sidecar.charting.state import ChartState, Zoom
from unilab_sidecar.drawing.layout import FRAME_CELLS, FRAME_ROWS
from unilab_sidecar.drawing.text import line_width, plain
from unilab_sidecar.views.charts import context, view


@pytest.fixture(scope="module")
def data() -> ChartData:
    return three_courses()


def test_a_tag_without_a_value_leaves_the_room_to_the_others(data: ChartData):
    tags = ("Train/never", "Loss/critic")
    lines = screen(data, ChartState(tags, compare=False)).splitlines()
    assert " b Loss/critic" in lines[2]
    assert lines[-1] == "  no value: ▸a Train/never"
    assert "loading" not in lines[0]
    live = screen(data._replace(live=True), ChartState(tags, compare=False))
    assert live.splitlines()[-1] == "  no value yet: ▸a Train/never"
    assert sum("└" in one for one in lines) == 1
    # As high as one alone.
    alone = screen(data, ChartState(tags[1:], compare=False)).splitlines()
    assert len(lines) == len(alone)
    second = screen(data, ChartState(tags, compare=False, focus=1))
    assert "▸b Loss/critic" in second
    only = screen(data, ChartState(tags[:1], compare=False))
    assert only.splitlines()[-1] == "Train/never"


def test_from_120_columns_a_list_stands_beside_the_chart_for_all(data: ChartData):
    state = ChartState(NAMES, overlay="together", compare=False)
    text = screen(data, state, 120, 40)
    row = next(line for line in text.splitlines() if "newest, min … max" in line)
    assert row.index("newest") > 120 - FRAME_CELLS - 40
    assert re.search(r" 1000 +1 … 1000", text)
    assert "now" not in text
    assert "at the cursor" in screen(data, replace(state, cursor=3.0), 120, 40)


def test_charts_of_their_own_have_all_of_the_width_and_their_figures_above_them(data: ChartData):
    text = screen(data, ChartState(NAMES, compare=False), 160, 48)
    assert "newest, min" not in text
    headings = [line for line in text.splitlines() if " now " in line]
    assert len(headings) == len(NAMES)
    assert all(len(line.rstrip()) > 140 for line in headings)


def test_more_charts_than_fit_are_shown_around_the_one_that_is_meant():
    tags = {f"reward/{letter}": RISING for letter in "abcdefgh"}
    data = ChartData(store_of(tags), tuple(tags))
    state = ChartState(tuple(tags))
    assert "1 to 3 of 8 charts" in screen(data, state)
    text = screen(data, replace(state, focus=5))
    assert "▸f reward/f" in text
    assert "reward/a" not in text
    alone = screen(data, replace(state, focus=5, alone=True))
    assert "f reward/f" in alone
    assert alone.count("└") == 1
    # A wide terminal has two columns of them.
    wide = screen(data, state, 160, 30)
    assert all(tag in wide for tag in tags)
    assert any("reward/a" in line and "reward/b" in line for line in wide.splitlines())


def test_wide_characters_keep_everything_aligned(data: ChartData):
    for columns in (60, 80, 130):
        shown = view(data, ChartState(NAMES, compare=False), columns, 40)
        widths = [line_width(line) for line in shown.lines if "损失" in plain(line)]
        assert widths
        assert max(map(line_width, shown.lines)) <= columns - FRAME_CELLS
    row = next(line for line in shown.lines if "c 损失/函数值" in plain(line))
    other = next(line for line in shown.lines if "b Loss/critic" in plain(line))
    side = 130 - FRAME_CELLS - 35
    assert line_width(row) >= side
    assert line_width(other) >= side


def test_without_unicode_only_names_are_not_ascii(data: ChartData):
    states = [
        ChartState(),
        ChartState(NAMES[:2], cursor=400.0),
        ChartState(NAMES[:2], overlay="scaled", zoom=Zoom(100.0)),
        ChartState(NAMES[:2], picker=Picker("loss", typing=False)),
        ChartState(NAMES[:2], log_y=True, x_axis="time"),
    ]
    for state in states:
        for size in ((80, 24), (160, 48)):
            shown = view(data, state, *size, unicode=False)
            for text in map(plain, shown.lines):
                assert text.replace("损失/函数值", "").isascii(), text


def test_no_size_raises_and_none_is_overrun(data: ChartData):
    states = [
        ChartState(),
        ChartState(NAMES, cursor=400.0, log_y=True),
        ChartState(NAMES, overlay="scaled", cursor=1.0, x_axis="time"),
        ChartState(NAMES, picker=Picker("l", 1)),
        ChartState(("gone", *NAMES), focus=7, zoom=Zoom(1e-9, 5e9), cursor=-1e12),
    ]
    sizes = [(c, r) for c in (1, 5, 23, 30, 79, 119) for r in (1, 3, 6, 24)]
    sizes += [(2, 2), (300, 100), (300, 3), (41, 100), (160, 48)]
    for state in states:
        for columns, rows in sizes:
            for unicode in (True, False):
                shown = view(data, state, columns, rows, unicode=unicode)
                assert len(shown.lines) <= max(rows - FRAME_ROWS, 1)
                width = max(columns - FRAME_CELLS, 1)
                assert all(line_width(line) <= width for line in shown.lines)
                assert context(data, state, columns, rows).cells >= 1


def test_one_chart_alone_has_all_of_the_width_and_its_figures_above_it(data: ChartData):
    for state in (ChartState(NAMES[:1]), ChartState(NAMES, alone=True, overlay="together")):
        lines = screen(data, replace(state, compare=False), 160, 48).splitlines()
        assert lines[2].endswith("now 1000  min 1  max 1000")
        assert len(lines[2]) == 160 - FRAME_CELLS
        assert "newest, min" not in "\n".join(lines)


def test_figures_leave_the_tag_room_beside_an_earlier_runs(data: ChartData):
    state = ChartState(NAMES[:2], overlay="together", cursor=502.0)
    row = screen(data, state, 74, 24).splitlines()[-2]
    assert "a Train/mean_reward" in row
    assert "┄ earlier" in row
    assert ("min" in row) == ("max" in row)
    narrow = [screen(data, state, columns, 24) for columns in range(40, 90)]
    assert all(text.count("min ") == text.count("max ") for text in narrow)
