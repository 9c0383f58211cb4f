"""The charts' screen: what it says, values at the cursor, curves told apart, what to do when empty."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from chart_runs import TAG, store_of
from chart_screens import NAMES, RISING, screen, three_courses

from unilab_sidecar.charting.panes import ChartData
from unilab_sidecar.charting.state import KEYS, ChartState, Overlay, Zoom
from unilab_sidecar.charting.store import ChartStore
from unilab_sidecar.drawing.layout import FRAME_CELLS, FRAME_ROWS
from unilab_sidecar.drawing.text import plain
from unilab_sidecar.views.charts import context, usual, view


@pytest.fixture(scope="module")
def data() -> ChartData:
    return three_courses()


def test_without_a_tag_it_says_what_to_press(data: ChartData):
    text = screen(data, ChartState())
    assert "Press / to choose among 3 tags" in text
    assert all(key.keys in text for key in KEYS)
    assert "No tag has come yet" in screen(ChartData(ChartStore()), ChartState())


def test_each_tag_has_a_chart_with_its_own_axis(data: ChartData):
    text = screen(data, ChartState(NAMES[:2], compare=False))
    assert text.startswith(
        "iteration 1 to 1,000 · whole run\nnewest iteration 1,000   steps 256,000"
    )
    lines = text.splitlines()
    heads = [line for line in lines if "Train/mean_reward" in line or "Loss/critic" in line]
    assert heads[0].startswith("▸a Train/mean_reward ─")
    assert heads[0].endswith(" now 1000  min 1  max 1000")
    assert heads[1].startswith(" b Loss/critic ─")
    assert heads[1].endswith(" now 1  min 1  max 1000")
    assert sum("└" in line for line in lines) == 2
    assert len(lines) <= 24 - FRAME_ROWS


def test_the_cursor_says_lowest_mean_and_highest_of_its_column(data: ChartData):
    state = ChartState(NAMES[:1], cursor=500.0, compare=False)
    cells = context(data, state, 80, 24).cells
    assert cells == 80 - FRAME_CELLS - 9
    text = screen(data, state)
    wide = 999 / cells
    first = math.ceil(1 + int(499 / wide) * wide)
    inside = [value for value in RISING if first <= value < 1 + (int(499 / wide) + 1) * wide]
    mean = sum(inside) / len(inside)
    assert f"▲ iteration {inside[0]:.0f} to {inside[-1]:.0f}   steps 12" in text
    head = f"mean {mean:.4g}  min {inside[0]:.0f}  max {inside[-1]:.0f}  of {len(inside)}"
    assert head in text
    assert "▲" in text.splitlines()[-2]


def test_of_a_single_update_there_is_one_value_as_fine_as_the_axis():
    store = store_of({TAG: [38_000.0 + number for number in range(1000)]})
    state = ChartState((TAG,), zoom=Zoom(2.6, 462.2), cursor=461.0, compare=False)
    for columns in (80, 140):
        text = screen(ChartData(store, (TAG,)), state, columns)
        assert "38.4600k" in text
        assert "38.46k  " not in text
        assert "min 3" not in text
        assert " … 3" not in text
    following = replace(state, cursor=None, zoom=Zoom(2.6))
    assert "now 38.9990k  min 38.9970k  max 38.9990k" in screen(ChartData(store, (TAG,)), following)


def test_the_line_enters_a_window_of_few_updates_as_it_leaves_it():
    store = store_of({TAG: [38_000.0 + number for number in range(1000)]})
    state = ChartState((TAG,), zoom=Zoom(2.6, 462.3), compare=False)
    lines = screen(ChartData(store, (TAG,)), state, 100).splitlines()
    rows = [
        [row for row, one in enumerate(lines[3:-2]) if one.ljust(97)[10 + place] not in " │┤"]
        for place in range(80)
    ]
    assert all(rows)
    # It falls from left to right on the screen, by the same everywhere.
    assert rows[0][-1] - rows[10][-1] >= 1
    assert rows[-11][0] - rows[-1][0] >= 1


def test_at_the_cursor_the_newest_attempt_counts():
    values = [1.0] * 100 + [5.0] * 100
    store = store_of({TAG: values}, attempts=[101])
    text = screen(ChartData(store, (TAG,)), ChartState((TAG,), cursor=60.0))
    assert "mean 5 " in text
    assert "attempt 2" in text
    text = screen(ChartData(store, (TAG,)), ChartState((TAG,), cursor=20.0))
    assert "mean 1 " in text
    assert "attempt" not in text


def test_the_earlier_run_is_told_from_this_ones_spikes_and_has_its_name_and_value(data: ChartData):
    shown = view(data, ChartState(NAMES[:1]), 100, 24)
    text = "\n".join(map(plain, shown.lines))
    assert "┄ 2026-03-09_18-30-00_numpy" in text
    dots = {
        part.style
        for line in shown.lines
        for part in line
        if any("\u2800" < character < "\u2900" for character in part.text)
    }
    assert dots == {"series6", "series1"}
    assert "┄ earlier 1200" in text
    at = view(data, ChartState(NAMES[:1], cursor=50.0), 100, 24)
    assert re.search(r"mean \S+ .*┄ earlier \d+", "\n".join(map(plain, at.lines)))
    wide = "\n".join(map(plain, view(data, ChartState(NAMES[:1]), 140, 24).lines))
    assert "┄ earlier 1200" in wide
    # It reaches 1200, which the chart has room for; the figures are this run's.
    assert "1200" in text or "1000 ┤" in text
    assert "max 1000" in text
    assert "2026" not in screen(data, ChartState(NAMES[:1], compare=False))


def test_the_key_that_compares_says_so_where_there_is_nothing_to_compare_with(data: ChartData):
    alone = data._replace(compare=None, earlier=0)
    said = "no earlier run of this task here"
    assert said not in screen(alone, ChartState(NAMES[:1]))
    assert said in screen(alone, ChartState(NAMES[:1], compare=False))
    assert said not in screen(data, ChartState(NAMES[:1], compare=False))


@pytest.mark.parametrize("columns", [70, 80, 140])
def test_an_earlier_run_without_these_tags_is_said_to_have_none(data: ChartData, columns: int):
    said = "none of these tags"
    assert said in screen(data, ChartState(NAMES[1:2]), columns)
    assert said not in screen(data, ChartState(NAMES[1:2], compare=False), columns)
    # One of them is enough, and what has not come yet is not known to be none.
    assert said not in screen(data, ChartState(NAMES[:2]), columns)
    coming = ChartStore()
    coming.keep(NAMES)
    text = screen(data._replace(compare=coming), ChartState(NAMES[1:2]), columns)
    assert said not in text
    assert "loading" in text


def test_this_run_lies_in_front_of_the_earlier_one():
    same = ChartData(store_of({TAG: RISING}), (TAG,), store_of({TAG: RISING}), "twin")
    lines = view(same, ChartState((TAG,)), 80, 24).lines
    dots = [p for parts in lines for p in parts if any(c > "\u2800" for c in p.text[:1])]
    assert {part.style for part in dots} == {"series1"}
    text = "\n".join(map(plain, view(same, ChartState((TAG,)), 80, 24, unicode=False).lines[3:]))
    assert "." not in text.replace("0.", "")


def test_without_braille_letters_tell_curves_apart(data: ChartData):
    state = ChartState(NAMES[:2], overlay="scaled", compare=False)
    body = [plain(line)[9:60] for line in view(data, state, 80, 24, unicode=False).lines[2:17]]
    assert {"a", "b"} <= set("".join(body))
    assert not {"'", "|"} & set("".join(body))


def test_one_chart_for_all_tells_curves_apart_without_colour(data: ChartData):
    words_of: dict[Overlay, str] = {
        "together": "one value axis",
        "scaled": "each on its own scale",
    }
    for overlay, words in words_of.items():
        text = screen(data, ChartState(NAMES, overlay=overlay, compare=False))
        assert words in text
        lines = text.splitlines()
        ends = [line[-1] for line in lines if re.search(r"[┤│].* [abc]$", line)]
        assert sorted(ends) == ["a", "b", "c"]
        assert [line[1] for line in lines[-3:]] == ["a", "b", "c"]
    assert "100%" in text


def test_a_zoom_says_how_far_and_whether_it_follows(data: ChartData):
    text = screen(data, ChartState(NAMES[:1], zoom=Zoom(99.9), compare=False))
    assert text.startswith("iteration 901 to 1,000 · zoom 10× · follows the newest")
    text = screen(data, ChartState(NAMES[:1], zoom=Zoom(100.0, 300.0), compare=False))
    assert text.startswith("iteration 200 to 300 · zoom 9.99×\n")
    assert "now 300  min 200  max 300" in text


def test_of_a_live_run_the_header_says_what_there_is(data: ChartData):
    state = ChartState(NAMES[:1], compare=False)
    text = screen(data._replace(live=True), state)
    assert text.startswith("iteration 1 to 1,000 · whole run")
    # Behind the newest value there is room for the next ones.
    live, ended = (
        max(len(line.rstrip()) for line in shown.splitlines()[3:10])
        for shown in (text, screen(data, state))
    )
    assert live < ended
    assert context(data._replace(live=True), state, 80, 24).live


def test_what_is_worth_a_look_is_known():
    assert usual(("Loss/critic", "Train/mean_reward", "x")) == ("Train/mean_reward", "Loss/critic")
    assert usual(("x",)) == ()


def test_the_time_at_the_cursor_is_as_fine_as_the_axis(data: ChartData):
    state = ChartState(NAMES[:1], "time", zoom=Zoom(0.4, 50.2), cursor=50.0, compare=False)
    lines = screen(data, state).splitlines()
    assert lines[0].startswith("time 49.80s to 50.20s · zoom 250×, the closest")
    assert lines[1] == "▲ iteration 500   steps 128,000   time 50.00s"
