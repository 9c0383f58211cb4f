"""What each key changes, without a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unilab_sidecar.charting import state as chart_state
from unilab_sidecar.charting.state import ChartContext, ChartState
from unilab_sidecar.events import event_state
from unilab_sidecar.looking.commands_by_name import Palette, commands_of, matching
from unilab_sidecar.looking.key_help import KeyHelp
from unilab_sidecar.looking.view_names import THEMES, VIEWS, View
from unilab_sidecar.looking.viewing import Context, ViewState, press
from unilab_sidecar.ranks import state as rank_state
from unilab_sidecar.ranks.state import RanksContext

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
    *("ctrl+c", "ctrl+backslash", "ctrl+u", "ctrl+w", "f1", "任"),
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
        (("ctrl+c",), "interrupted"),
        (("s",), "snapshot"),
        (("ctrl+z",), "put aside"),
        (("/", "ctrl+c"), "interrupted"),
        ((":", "ctrl+c"), "interrupted"),
        (("2", "/", "ctrl+c"), "interrupted"),
        (("?", "ctrl+c"), "interrupted"),
        (("ctrl+backslash",), "leave"),
        (("/", "ctrl+backslash"), "leave"),
        ((":", "ctrl+backslash"), "leave"),
        (("?", "ctrl+backslash"), "leave"),
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


@pytest.mark.parametrize("view", VIEWS)
def test_every_command_of_the_palette_does_what_its_key_does(view: View):
    start = ViewState(view, chart=ChartState(KNOWN[:2]))
    for place, command in enumerate(commands_of(view)):
        picked = typed(start, ":", *("down",) * place, "enter")
        direct = press(start, command.key, CONTEXT, command.character)
        assert picked == direct, command


def test_the_palette_finds_commands_by_parts_of_their_names():
    assert [one.key for one in matching(Palette("show bus"), "overview")] == ["5"]
    assert typed(ViewState(), "ctrl+p", *"bus", "enter").view == "bus"
    nothing = typed(ViewState(), ":", *"zzz")
    assert typed(nothing, "enter") == ViewState()
    assert typed(nothing, "escape") == ViewState()
    assert typed(ViewState(), ":", "up", "enter").asked == "leave"


@pytest.mark.parametrize(
    ("words", "keys"),
    [("the", "t"), ("theme", "t"), ("pa", "Space"), ("Q", "q"), ("s", "s"), ("ran", "3"),
     ("view the", "Ctrl+Z"), ("training", "K"), ("", "1"), ("o", "1"), ("help", "?")],
)  # fmt: skip
def test_the_command_that_is_likely_meant_is_the_marked_one(words: str, keys: str):
    assert matching(Palette(words), "overview")[0].keys == keys


@pytest.mark.parametrize(
    ("view", "words", "key"),
    [("charts", "log", "l"), ("charts", "x", "x"), ("charts", "compare", "c"),
     ("charts", "overlay", "o"), ("charts", "zoom in", "plus"), ("charts", "whole", "0"),
     ("charts", "cursor left", "left"), ("charts", "remove", "delete"), ("charts", "tag", "slash"),
     ("ranks", "slowest", "o"), ("ranks", "collectors", "c"), ("ranks", "choose", "slash"),
     ("events", "follow", "end"), ("events", "filter", "slash"), ("bus", "filter", "slash")],
)  # fmt: skip
def test_a_view_offers_its_own_commands_by_name(view: View, words: str, key: str):
    assert matching(Palette(words), view)[0].key == key


def test_the_palette_offers_no_key_twice_and_nothing_of_another_view():
    for view in VIEWS:
        keys = [one.key for one in commands_of(view)]
        assert len(keys) == len(set(keys))
    assert not matching(Palette("log scale"), "overview")
    assert not matching(Palette("filter"), "charts")


@pytest.mark.parametrize(
    ("view", "helped"),
    [("charts", chart_state.KEYS), ("ranks", rank_state.KEYS), ("events", event_state.KEYS)],
)
def test_the_commands_of_a_view_cover_every_key_of_its_help(
    view: View, helped: tuple[KeyHelp, ...]
):
    offered = {one.keys for one in commands_of(view)}
    for key in helped:
        # Scrolling is left to its keys, and Esc to who knows it.
        known = key.keys.split() if key.short not in ("scroll", "back") else []
        assert offered.issuperset(set(known) - {"y"}), key


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
    assert press(state, "ctrl+c", CONTEXT).asked == "interrupted"


def test_only_a_y_after_the_key_and_only_where_it_is_allowed_stops_the_training() -> None:
    allowed = CONTEXT._replace(may_stop=True)
    assert press(ViewState(), "K", CONTEXT).asked == "explain"
    assert not press(ViewState(), "K", CONTEXT).stopping
    asking = press(ViewState(), "K", allowed)
    assert asking.stopping
    assert asking.asked == ""
    for key in ("n", "Y", "K", "q", "enter", "escape", "space", "tab", "s", "1"):
        after = press(asking, key, allowed)
        assert (after.stopping, after.asked) == (False, "")
    assert press(asking, "ctrl+c", allowed).asked == "interrupted"
    assert press(asking, "ctrl+backslash", allowed).asked == "leave"
    assert press(asking, "y", allowed).asked == "stop"
    too_soon = press(asking, "y", allowed._replace(is_read=False))
    assert (too_soon.stopping, too_soon.asked) == (False, "unread")
    typing = replace(ViewState(), typing=True)
    assert not press(typing, "K", allowed).stopping
