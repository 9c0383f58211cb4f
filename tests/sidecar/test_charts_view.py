"""The charts' screen: what it says, values at the cursor, every size, what to do when empty."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from chart_runs import TAG, blocks_of, record, records_of, store_of

from unilab_sidecar.chart_picker import Picker
from unilab_sidecar.chart_state import KEYS, ChartState, Overlay, Zoom
from unilab_sidecar.chart_store import ChartStore, HistoryPiece
from unilab_sidecar.layout import FRAME_CELLS, FRAME_ROWS
from unilab_sidecar.text import line_width, plain
from unilab_sidecar.views.charts import ChartData, context, usual, view

COUNT = 1000
RISING = [float(number) for number in range(1, COUNT + 1)]
FALLING = [1000.0 / number for number in range(1, COUNT + 1)]
NAMES = ("Train/mean_reward", "Loss/critic", "损失/函数值")


@pytest.fixture(scope="module")
def data() -> ChartData:
    store = store_of(dict(zip(NAMES, (RISING, FALLING, RISING), strict=True)))
    older = store_of({NAMES[0]: [2.0 * value for value in RISING[:600]]})
    return ChartData(store, tuple(sorted(NAMES)), older, "2026-03-09_18-30-00_numpy")


def screen(data: ChartData, state: ChartState, columns: int = 80, rows: int = 24) -> str:
    return "\n".join(plain(line).rstrip() for line in view(data, state, columns, rows).lines)


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


def test_at_the_cursor_the_newest_attempt_counts():
    values = [1.0] * 100 + [5.0] * 100
    store = store_of({TAG: values}, attempts=[101])
    text = screen(ChartData(store, (TAG,)), ChartState((TAG,), cursor=60.0))
    assert "mean 5 " in text
    assert "attempt 2" in text
    text = screen(ChartData(store, (TAG,)), ChartState((TAG,), cursor=20.0))
    assert "mean 1 " in text
    assert "attempt" not in text


def test_the_earlier_run_is_drawn_dim_under_its_name(data: ChartData):
    shown = view(data, ChartState(NAMES[:1]), 100, 24)
    text = "\n".join(map(plain, shown.lines))
    assert "┄ 2026-03-09_18-30-00_numpy" in text
    dots = {
        part.style
        for line in shown.lines
        for part in line
        if any("\u2800" < character < "\u2900" for character in part.text)
    }
    assert dots == {"dim", "series1"}
    # It reaches 1200, which the chart has room for; the figures are this run's.
    assert "1200" in text or "1000 ┤" in text
    assert "max 1000" in text
    assert "2026" not in screen(data, ChartState(NAMES[:1], compare=False))
    assert "2026" not in screen(data, ChartState(NAMES[1:2]))


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


def test_from_120_columns_a_list_stands_beside_the_charts(data: ChartData):
    text = screen(data, ChartState(NAMES, compare=False), 120, 40)
    row = next(line for line in text.splitlines() if "newest, min … max" in line)
    assert row.index("newest") > 120 - FRAME_CELLS - 40
    assert re.search(r" 1000 +1 … 1000", text)
    assert "now" not in text
    assert "at the cursor" in screen(data, ChartState(NAMES, cursor=3.0), 120, 40)


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


def test_what_has_no_place_on_a_log_scale_is_counted():
    store = store_of({TAG: [-1.0, 0.0, 3.0, math.nan] * 50})
    data = ChartData(store, (TAG,))
    text = screen(data, ChartState((TAG,), log_y=True))
    assert "50 NaN, 100 not above 0" in text
    assert "log scale" in text
    assert "50 NaN " in screen(data, ChartState((TAG,)))
    assert "not above" not in screen(data, ChartState((TAG,)))
    never = ChartData(store_of({TAG: [-1.0] * 9}), (TAG,))
    assert "nothing above 0: l for the linear scale" in screen(
        never, ChartState((TAG,), log_y=True)
    )


def test_a_block_says_at_least_how_much_is_not_shown():
    values = np.linspace(-1, 1, 1024).tolist()
    store = ChartStore()
    store.keep([TAG])
    piece = HistoryPiece((TAG,), 0, 1024, blocks_of(records_of(values)), complete=True)
    store.add_piece(piece)
    text = screen(ChartData(store, (TAG,)), ChartState((TAG,), log_y=True))
    assert "at least 1 not above 0" in text


def test_what_a_block_counts_as_no_number_is_marked():
    values = [1.0] * 1024 + [2.0] * 1024 + [3.0] * 1024
    values[1500] = math.nan
    store = ChartStore()
    store.keep([TAG])
    piece = HistoryPiece((TAG,), 0, 3072, blocks_of(records_of(values)), complete=True)
    store.add_piece(piece)
    text = screen(ChartData(store, (TAG,)), ChartState((TAG,)))
    assert "1 not finite" in text
    assert text.splitlines()[-2].count("X") == 1


def test_the_history_that_is_still_coming_is_said():
    store = ChartStore()
    store.keep([TAG])
    data = ChartData(store, (TAG,))
    assert "Loading the history: 0 %" in screen(data, ChartState((TAG,)))
    blocks = blocks_of(records_of([1.0] * 1024))
    store.add_piece(HistoryPiece((TAG,), 0, 1024, blocks, newest=4096))
    assert "loading 25 %" in screen(data, ChartState((TAG,)))
    store.add_piece(HistoryPiece((TAG,), 1024, 1024, complete=True))
    assert "loading" not in screen(data, ChartState((TAG,)))


def test_an_axis_that_nobody_counts_is_said():
    store = ChartStore()
    store.keep([TAG])
    store.add_piece(HistoryPiece((TAG,), 0, 0, complete=True))
    store.add_records([record(place, (TAG,), [1.0], env_steps=None) for place in (1, 2)])
    data = ChartData(store, (TAG,))
    text = screen(data, ChartState((TAG,), x_axis="env_steps"))
    assert "Nobody says the env steps" in text
    assert "x for another axis" in text
    assert "steps" not in screen(data, ChartState((TAG,)))


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


def test_a_zoom_says_how_far_and_whether_it_follows(data: ChartData):
    text = screen(data, ChartState(NAMES[:1], zoom=Zoom(99.9), compare=False))
    assert text.startswith("iteration 900 to 1,000 · zoom 10× · follows the newest")
    text = screen(data, ChartState(NAMES[:1], zoom=Zoom(100.0, 300.0), compare=False))
    assert text.startswith("iteration 200 to 300 · zoom 9.99×\n")
    assert "now 300  min 200  max 300" in text


def test_of_a_live_run_the_header_says_what_there_is(data: ChartData):
    state = ChartState(NAMES[:1], compare=False)
    text = screen(data._replace(live=True), state)
    assert text.startswith("iteration 1 to 1,000 · whole run")
    # Behind the newest value there is room for the next ones.
    assert {line[-1] for line in text.splitlines()[3:10]} != {line[-1] for line in screen(
        data, state).splitlines()[3:10]}  # fmt: skip
    assert context(data._replace(live=True), state, 80, 24).live


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
            for text in (shown.hint, *map(plain, shown.lines)):
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


def test_what_is_worth_a_look_is_known():
    assert usual(("Loss/critic", "Train/mean_reward", "x")) == ("Train/mean_reward", "Loss/critic")
    assert usual(("x",)) == ()
