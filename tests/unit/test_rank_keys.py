"""What each key changes of the ranks that are shown, by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from unilab_sidecar.ranks.state import RanksContext, RanksState, first_row, press

KNOWN = tuple(f"tag{n}" for n in range(12))
AT = RanksContext(KNOWN, lines=100, space=10)
DOWN = RanksState(first=40, tags=("a", "b"))


def pressed(state: RanksState, *keys: str, at: RanksContext = AT) -> RanksState:
    for key in keys:
        state = press(state, key, at)
    return state


def test_another_order_and_other_rows_begin_at_the_first_one() -> None:
    orders = [pressed(DOWN, *["o"] * times) for times in (1, 2, 3)]
    assert [one.order for one in orders] == ["slowest", "age", "rank"]
    assert {one.first for one in orders} == {0}
    hidden = pressed(DOWN, "c")
    assert (hidden.collectors, hidden.first) == (False, 0)
    assert pressed(hidden, "c").collectors


@pytest.mark.parametrize(
    ("key", "first"),
    [("up", 39), ("k", 39), ("down", 41), ("j", 41), ("pageup", 31), ("pagedown", 49),
     ("home", 0), ("end", 90)],
)  # fmt: skip
def test_rows_scroll_by_one_and_by_what_fits_less_one(key: str, first: int) -> None:
    assert pressed(DOWN, key) == replace(DOWN, first=first)


@pytest.mark.parametrize("key", ["up", "pageup", "home"])
def test_nothing_is_above_the_first_row(key: str) -> None:
    assert pressed(RanksState(first=1), key, key).first == 0


@pytest.mark.parametrize("key", ["down", "pagedown", "end"])
def test_nothing_is_below_the_last_one(key: str) -> None:
    assert pressed(RanksState(first=90), key).first == 90
    # Where all of them fit, or only one row does.
    assert pressed(RanksState(), key, at=RanksContext(KNOWN, 3, 10)).first == 0
    assert pressed(RanksState(), key, at=RanksContext(KNOWN, 3, 1)).first == (
        2 if key == "end" else 1
    )


def test_a_state_from_a_longer_list_is_scrolled_from_what_is_seen() -> None:
    far = RanksState(first=5000)
    assert first_row(far, 100, 10) == 90
    assert first_row(RanksState(first=-3), 100, 10) == 0
    assert first_row(far, 5, 10) == 0
    assert pressed(far, "up").first == 89


def test_the_last_chosen_tag_goes_first_and_escape_goes_back_up() -> None:
    assert pressed(DOWN, "delete").tags == ("a",)
    assert pressed(DOWN, "backspace", "backspace").tags == ()
    none = RanksState()
    assert press(none, "delete", AT) is none
    assert pressed(DOWN, "escape") == replace(DOWN, first=0)
    # The key is others' then.
    assert press(none, "escape", AT) is none
    assert press(DOWN, "x", AT) is DOWN


def test_tags_are_taken_with_enter_and_left_as_they_were_with_escape() -> None:
    opened = pressed(DOWN, "slash")
    assert opened.picker is not None
    assert opened.picker.chosen == DOWN.tags
    assert pressed(opened, "enter").tags == ("a", "b", "tag0")
    chosen = pressed(opened, "down", "space")
    assert pressed(chosen, "escape") == DOWN
    assert pressed(chosen, "enter") == replace(DOWN, tags=("a", "b", "tag0"))


def test_eight_tags_can_be_chosen() -> None:
    state = pressed(RanksState(), "t", "down", *["space", "down"] * 10)
    assert state.picker is not None
    assert state.picker.chosen == KNOWN[:8]
