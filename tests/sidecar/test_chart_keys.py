"""What the keys of the charts change: axis, zoom, cursor, choice of tags."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from chart_runs import bins_of
from hypothesis import given, settings
from hypothesis import strategies as st

from unilab_sidecar.charting.bins import Bins, Span
from unilab_sidecar.charting.picker import Picker, picker_lines
from unilab_sidecar.charting.state import ChartContext, ChartState, Zoom, press, window
from unilab_sidecar.charting.store import MAX_TAGS
from unilab_sidecar.drawing.text import line_width, plain

KNOWN = ("Loss/actor", "Loss/critic", "Perf/total_fps", "Train/mean_reward")
BINS = Bins(bins_of([1.0] * 1000))
CONTEXT = ChartContext(KNOWN, Span(0, 1000), 100, BINS, courses=(BINS,))
SHOWN = ChartState(("Loss/actor", "Loss/critic", "Perf/total_fps"))


def pressed(state: ChartState, keys: Sequence[str], context: ChartContext = CONTEXT) -> ChartState:
    for key in keys:
        state = press(state, key, context)
    return state


def test_a_few_letters_and_enter_show_a_chart():
    state = pressed(ChartState(), ["slash", *"crit", "enter"])
    assert state.tags == ("Loss/critic",)
    assert state.picker is None
    # Enter alone opens the choice while there is no chart.
    assert pressed(ChartState(), ["enter", "enter"]).tags == ("Loss/actor",)


def test_several_are_chosen_with_space():
    keys = ["/", *"loss", "down", "space", "down", "space", "enter"]
    assert pressed(ChartState(), keys).tags == ("Loss/actor", "Loss/critic")
    assert pressed(SHOWN, ["t", "down", "space", "enter"]).tags == SHOWN.tags[1:]
    # What is marked when one is done by hand is not taken as well.
    keys = ["/", "down", "space", "down", "enter"]
    assert pressed(ChartState(), keys).tags == ("Loss/actor",)


def test_while_one_types_every_letter_is_a_letter():
    state = pressed(SHOWN, ["/", *"x+lq 0", "space", "-"])
    assert state.picker is not None
    assert state.picker.text == "x+lq 0 -"
    assert state.x_axis == "iteration"
    state = pressed(state, ["backspace", "backspace"])
    assert state.picker is not None
    assert state.picker.text == "x+lq 0"
    assert pressed(state, ["escape"]).picker == Picker(chosen=SHOWN.tags)
    assert pressed(state, ["escape", "escape"]) == SHOWN
    assert pressed(state, ["ctrl+u", "escape"]) == SHOWN


def test_no_more_tags_than_are_kept():
    known = tuple(f"tag{number:02}" for number in range(40))
    context = CONTEXT._replace(known=known)
    state = pressed(ChartState(), ["/", "down", *["space", "down"] * 20], context)
    assert state.picker is not None
    assert state.picker.chosen == known[:MAX_TAGS]
    assert pressed(state, ["space"], context).picker.full  # type: ignore[union-attr]
    lines = picker_lines(
        pressed(state, ["space"], context).picker or Picker(), known, 60, 20, MAX_TAGS
    )
    assert "16 tags at most" in plain(lines[1])


def test_the_list_shows_what_is_marked_and_says_what_is_wrong():
    known = tuple(f"tag{number:05}" for number in range(12_345))
    lines = picker_lines(Picker(at=9000, typing=False), known, 60, 20, MAX_TAGS)
    text = [plain(line) for line in lines]
    assert len(lines) == 20
    assert "▸ [ ] tag09000" in text
    assert "12,345 of 12,345 tags" in text[0]
    lines = picker_lines(Picker("/(/", chosen=("tag00001",)), known, 60, 20, MAX_TAGS)
    assert plain(lines[1]) == "! /(/: missing ) at position 1"
    assert "  [x] tag00001" in [plain(line) for line in lines]
    assert any("No tag passes" in plain(line) for line in picker_lines(
        Picker("zzz"), known, 60, 20, MAX_TAGS))  # fmt: skip
    assert any("No tag has come" in plain(line) for line in picker_lines(
        Picker(), (), 60, 20, MAX_TAGS))  # fmt: skip
    for width in (1, 5, 11, 30):
        for rows in (1, 2, 5):
            lines = picker_lines(Picker("中文字" * 30), known, width, rows, MAX_TAGS)
            assert len(lines) <= rows
            assert all(line_width(line) <= width for line in lines)


def test_switches():
    assert [pressed(SHOWN, ["x"] * n).x_axis for n in range(4)] == [
        "iteration", "env_steps", "time", "iteration",
    ]  # fmt: skip
    assert [pressed(SHOWN, ["o"] * n).overlay for n in range(4)] == [
        "apart", "together", "scaled", "apart",
    ]  # fmt: skip
    assert pressed(SHOWN, ["l"]).log_y
    assert not pressed(SHOWN, ["l", "y"]).log_y
    assert not pressed(SHOWN, ["c"]).compare
    # Pressed before anybody has told of earlier runs, it does not keep them from being drawn.
    told = press(pressed(SHOWN, ["c"]), "c", CONTEXT._replace(earlier=2))
    assert (told.compare, told.earlier) == (True, 0)


def test_the_cursor_begins_at_the_end_and_stays_in_the_window():
    assert pressed(SHOWN, ["left"]).cursor == 1000
    assert pressed(SHOWN, ["left", "left", "left"]).cursor == pytest.approx(980)
    assert pressed(SHOWN, ["left", "shift+left"]).cursor == pytest.approx(900)
    assert pressed(SHOWN, ["left", "right"]).cursor == 1000
    # The first point, not the edge.
    assert pressed(SHOWN, ["home"]).cursor == 1
    assert pressed(SHOWN, ["home", "left"]).cursor == 1
    assert pressed(SHOWN, ["home", "end"]).cursor == 1000
    assert pressed(SHOWN, ["left", "escape"]).cursor is None


def test_where_points_are_wider_than_columns_the_cursor_goes_from_one_to_the_next():
    sparse = CONTEXT._replace(whole=Span(1, 1000))
    state = ChartState(("Loss/actor",), zoom=Zoom(3.0, 502.4), cursor=501.7)
    places: list[float | None] = []
    for key in ("left", "left", "left", "right", "right", "right", "right"):
        state = press(state, key, sparse)
        places.append(state.cursor)
    assert places == [501, 500, 500, 501, 502, 502, 502]
    wide = ChartState(("Loss/actor",), zoom=Zoom(20.0, 510.0), cursor=500.0)
    assert press(wide, "shift+left", sparse).cursor == 490
    assert press(wide, "shift+right", sparse).cursor == 510


@pytest.mark.parametrize("closer", [3, 6, 7, 12])
def test_the_cursor_stays_on_a_point_whatever_the_window_does(closer: int):
    state = ChartState(("Loss/actor",), cursor=500.0)
    keys = ["pageup", "left", "home", "left", "pagedown", "end", "right", "-", "home", "+", "end"]
    for key in [*"+" * closer, *keys]:
        state = press(state, key, CONTEXT)
        assert state.cursor is not None
        shown = window(state, Span(0, 1000))
        assert shown.low <= state.cursor <= shown.high
        assert state.cursor == round(state.cursor), key


def test_the_cursor_may_stand_on_what_the_run_beside_it_has():
    longer = CONTEXT._replace(
        whole=Span(1, 1500), courses=(BINS, Bins(bins_of([1.0] * 500, first=1001)))
    )
    assert pressed(SHOWN, ["left"], longer).cursor == 1500


def test_the_narrowest_window_shows_five_updates_however_often_one_zooms():
    state = pressed(ChartState(("Loss/actor",), cursor=500.0), "+" * 40)
    assert state.zoom is not None
    assert state.zoom.width == pytest.approx(4)
    assert press(state, "+", CONTEXT) is state
    assert pressed(state, ["-"]).zoom == Zoom(pytest.approx(8), pytest.approx(504))  # type: ignore[arg-type]
    steps = ChartState(("Loss/actor",), "env_steps", cursor=256 * 500.0)
    context = CONTEXT._replace(whole=Span(256, 256_000))
    zoom = pressed(steps, "+" * 40, context).zoom
    assert zoom is not None
    assert zoom.width == pytest.approx(4 * 256)
    # Where there is a single one nobody can come nearer.
    alone = ChartContext(KNOWN, Span(5, 5), 100, Bins(BINS.table[:, :1]))
    assert pressed(ChartState(("Loss/actor",)), "+++", alone).zoom is None


def test_zooming_keeps_the_cursor_where_it_is_on_the_screen():
    state = pressed(ChartState(SHOWN.tags, cursor=250.0), ["+"])
    assert window(state, Span(0, 1000)) == pytest.approx((125, 625))
    assert state.cursor == 250
    state = pressed(state, ["plus"])
    assert window(state, Span(0, 1000)) == pytest.approx((187.5, 437.5))
    assert pressed(state, ["-", "-"]).zoom is None
    assert pressed(state, ["0"]).zoom is None


def test_without_a_cursor_the_window_follows_the_newest():
    state = pressed(SHOWN, ["+", "+"])
    assert state.zoom == Zoom(250.0, None)
    assert window(state, Span(0, 1000)) == (750, 1000)
    assert window(state, Span(0, 4000)) == (3750, 4000)
    back = pressed(state, ["pageup"])
    assert window(back, Span(0, 1000)) == (625, 875)
    assert window(back, Span(0, 4000)) == (625, 875)
    assert window(pressed(back, ["pageup"] * 20), Span(0, 1000)) == (0, 250)
    assert pressed(back, ["pagedown"]).zoom == Zoom(250.0, None)


def test_the_picture_of_a_live_run_grows_at_its_end_only():
    spans = [window(SHOWN, Span(0, 20_000 + number * 20), live=True) for number in range(100)]
    assert len(set(spans)) == 2
    assert all(20_000 + number * 20 <= span.high for number, span in enumerate(spans))
    assert all(span.high <= 22_000 * 1.125 for span in spans)
    state = ChartState(SHOWN.tags, zoom=Zoom(1000.0))
    spans = [window(state, Span(0, 20_000 + number), live=True) for number in range(64)]
    assert len(set(spans)) <= 2
    assert all(span.high - span.low == 1000 for span in spans)
    # The cursor does not leave what there is.
    context = CONTEXT._replace(whole=Span(0, 900), live=True)
    assert window(SHOWN, Span(0, 900), live=True).high > 900
    assert pressed(SHOWN, ["left"], context).cursor == 900
    assert pressed(SHOWN, ["end"], context).cursor == 900
    assert window(SHOWN, Span(5, 5), live=True) == (5, 5)


def test_another_axis_shows_the_same_stretch_of_the_run():
    state = pressed(ChartState(SHOWN.tags, zoom=Zoom(100.0, 600.0), cursor=550.0), ["x"])
    assert state.x_axis == "env_steps"
    assert window(state, Span(256, 256_000)) == pytest.approx((256 * 500, 256 * 600))
    assert state.cursor == pytest.approx(256 * 550)
    later = press(state, "x", CONTEXT._replace(whole=Span(256, 256_000)))
    assert window(later, Span(0.1, 100)) == pytest.approx((50, 60))
    following = pressed(ChartState(SHOWN.tags, zoom=Zoom(100.0)), ["x"])
    assert following.zoom == Zoom(pytest.approx(25_600), None)  # type: ignore[arg-type]


def test_charts_are_walked_through_enlarged_and_taken_away():
    state = pressed(SHOWN, ["down", "down", "down"])
    assert state.focus == 2
    assert pressed(state, ["up"]).focus == 1
    assert pressed(state, ["enter"]).shown == ("Perf/total_fps",)
    assert pressed(state, ["enter", "enter"]).shown == SHOWN.tags
    assert pressed(state, ["enter", "escape"]).shown == SHOWN.tags
    state = pressed(state, ["delete"])
    assert (state.tags, state.focus) == (SHOWN.tags[:2], 1)
    assert pressed(state, ["backspace", "delete"]).tags == ()


def test_keys_of_others_change_nothing():
    for key in ("q", "f1", "1", "5", "question_mark", "ctrl+p", "tab", "s"):
        assert press(SHOWN, key, CONTEXT) is SHOWN
    # Without data there is nowhere to go.
    for key in ("left", "plus", "home", "pageup"):
        assert press(SHOWN, key, ChartContext(KNOWN)) is SHOWN


KEYS = st.sampled_from(
    ["left", "right", "shift+left", "home", "end", "plus", "minus", "0", "pageup", "pagedown",
     "x", "l", "o", "c", "up", "down", "enter", "escape", "delete", "backspace", "slash", "space",
     "a", "!", "tab", "f5", "ctrl+u"]
)  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(st.lists(KEYS, max_size=40), st.floats(0, 1e12), st.integers(1, 500))
def test_no_keys_lead_astray(keys: list[str], end: float, cells: int):
    whole = Span(0.0, end)
    context = ChartContext(KNOWN, whole, cells, BINS, courses=(BINS,))
    state = ChartState()
    for key in keys:
        state = press(state, key, context)
        assert len(state.tags) <= MAX_TAGS
        assert 0 <= state.focus <= max(len(state.tags) - 1, 0)
        shown = window(state, whole)
        assert shown.high >= shown.low
        if state.x_axis == "iteration" and state.zoom is not None and "x" not in keys:
            assert shown.low >= -1e-3 * end
            assert shown.high <= end * (1 + 1e-9)
