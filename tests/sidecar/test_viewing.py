"""What each key changes, without a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unilab_sidecar.chart_state import ChartContext
from unilab_sidecar.rank_state import RanksContext
from unilab_sidecar.viewing import (
    COMMANDS,
    THEMES,
    VIEWS,
    Context,
    Palette,
    ViewState,
    matching,
    press,
)

KNOWN = ("Loss/actor", "Loss/critic", "Train/mean_reward")
CONTEXT = Context(
    now_unix_s=1000.0,
    now_words="14:03:05",
    panels=("metrics", "rewards", "sources"),
    chart=ChartContext(KNOWN),
    usual_tags=("Loss/critic",),
    ranks=RanksContext(KNOWN, 10, 4),
)
KEYS = (
    *"12345/?:!qstxolcky0+-[]",
    *("space", "escape", "enter", "tab", "shift+tab", "up", "down", "pageup", "pagedown", "home"),
    *("end", "left", "right", "backspace", "delete", "slash", "question_mark", "ctrl+p", "ctrl+z"),
    *("ctrl+c", "ctrl+u", "ctrl+w", "f1", "任"),
)


def typed(state: ViewState, *keys: str) -> ViewState:
    for key in keys:
        state = press(state, key, CONTEXT)
    return state


@pytest.mark.parametrize(("key", "view"), list(zip("12345", VIEWS, strict=True)))
def test_digits_go_to_views_also_from_the_help(key: str, view: str):
    assert typed(ViewState(), key).view == view
    gone = typed(ViewState(), "?", key)
    assert (gone.view, gone.help) == (view, False)


def test_charts_begin_with_the_usual_tags_and_keep_those_that_were_chosen():
    charts = typed(ViewState(), "2")
    assert charts.chart.tags == ("Loss/critic",)
    emptied = typed(charts, "delete")
    assert typed(emptied, "2").chart.tags == ()
    chosen = replace(charts, chart=replace(charts.chart, tags=("Loss/actor",)))
    assert typed(chosen, "1", "2").chart.tags == ("Loss/actor",)


def test_space_pauses_with_the_time_and_makes_live_again():
    paused = typed(ViewState(), "space")
    assert (paused.paused_unix_s, paused.paused_words) == (1000.0, "14:03:05")
    live = typed(paused, "space")
    assert (live.paused_unix_s, live.paused_words) == (None, "")


def test_a_filter_is_typed_kept_and_cleared():
    state = typed(ViewState(), "/", *"loss", "space", *"!x")
    assert (state.filter, state.typing) == ("loss !x", True)
    assert state.asked == ""
    state = typed(state, "backspace", "backspace", "backspace")
    assert state.filter == "loss"
    kept = typed(state, "enter")
    assert (kept.filter, kept.typing) == ("loss", False)
    assert typed(kept, "escape").filter == ""
    assert typed(state, "escape").filter == ""
    assert typed(state, "ctrl+u").filter == ""
    assert typed(ViewState(), "/", *"one", "space", *"two", "ctrl+w").filter == "one"


def test_each_view_has_a_filter_of_its_own():
    state = typed(ViewState(), "/", *"loss", "enter", "4", "/", *"lost", "enter")
    assert state.filter == "lost"
    assert typed(state, "1").filter == "loss"
    assert typed(state, "5").filter == ""
    # The charts choose their tags themselves.
    chosen = typed(state, "2", "/")
    assert not chosen.typing
    assert chosen.chart.picker is not None


def test_letters_are_typed_where_something_is_typed():
    for state in (typed(ViewState(), "/"), typed(ViewState(), ":")):
        for key in "qst?12345:/":
            after = press(state, key, CONTEXT)
            assert (after.asked, after.view, after.help) == ("", "overview", False)
            assert after.theme == state.theme
    picking = typed(ViewState(), "2", "/")
    after = typed(picking, *"q1s?t:")
    assert after.chart.picker is not None
    assert after.chart.picker.text == "q1s?t:"
    assert (after.asked, after.view) == ("", "charts")


def test_tab_walks_through_the_panels_enter_enlarges_and_escape_goes_back_step_by_step():
    state = typed(ViewState(), "tab")
    assert state.focus == "metrics"
    assert typed(state, "tab", "tab", "tab").focus == "metrics"
    assert typed(ViewState(), "shift+tab").focus == "sources"
    zoomed = typed(state, "tab", "enter")
    assert (zoomed.focus, zoomed.zoomed) == ("rewards", True)
    once = typed(zoomed, "escape")
    assert (once.focus, once.zoomed) == ("rewards", False)
    assert typed(once, "escape").focus == ""
    assert typed(once, "escape", "escape") == typed(once, "escape")
    assert typed(ViewState(), "enter") == ViewState()


def test_leaving_and_saving_are_asked_of_the_app():
    for keys, asked in (
        (("q",), "leave"),
        (("ctrl+c",), "leave"),
        (("s",), "snapshot"),
        (("ctrl+z",), "put aside"),
        (("/", "ctrl+c"), "leave"),
        ((":", "ctrl+c"), "leave"),
        (("2", "/", "ctrl+c"), "leave"),
        (("?", "ctrl+c"), "leave"),
    ):
        state = typed(ViewState(), *keys)
        assert state.asked == asked, keys
        assert state.answered().asked == ""


def test_the_help_closes_by_its_key_by_escape_and_by_q():
    helped = typed(ViewState(), "?")
    assert helped.help
    for key in ("?", "q", "escape", "enter"):
        closed = typed(helped, key)
        assert (closed.help, closed.asked) == (False, "")
    assert press(helped, "down", CONTEXT) is helped


def test_themes_go_round_and_an_unknown_one_finds_back():
    state = ViewState()
    for expected in (*THEMES[1:], THEMES[0]):
        state = typed(state, "t")
        assert state.theme == expected
    assert typed(replace(state, theme="gone"), "t").theme == THEMES[0]


def test_every_command_of_the_palette_does_what_its_key_does():
    for place, command in enumerate(COMMANDS):
        picked = typed(ViewState(), ":", *("down",) * place, "enter")
        direct = press(
            ViewState(), command.key, CONTEXT, command.keys if len(command.keys) == 1 else None
        )
        assert picked == direct, command
        assert picked != ViewState() or command.key == "1"


def test_the_palette_finds_commands_by_parts_of_their_names():
    assert [one.key for one in matching(Palette("show bus"))] == ["5"]
    assert typed(ViewState(), "ctrl+p", *"bus", "enter").view == "bus"
    nothing = typed(ViewState(), ":", *"zzz")
    assert typed(nothing, "enter") == ViewState()
    assert typed(nothing, "escape") == ViewState()
    assert typed(ViewState(), ":", "up", "enter").asked == "leave"


def test_a_key_without_a_meaning_gives_the_very_same_state():
    for view in "1345":
        state = typed(ViewState(), view)
        for key in ("f1", "left", "ctrl+x"):
            assert press(state, key, CONTEXT) is state


@given(st.lists(st.sampled_from(KEYS), max_size=30))
@settings(max_examples=150, deadline=None)
def test_any_keys_are_survived_and_ctrl_c_always_leaves(keys: list[str]):
    state = typed(ViewState(), *keys).answered()
    assert state.view in VIEWS
    assert state.theme in THEMES
    assert press(state, "ctrl+c", CONTEXT).asked == "leave"
