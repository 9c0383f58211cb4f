"""Where the screen is scrolled to when somebody comes back to a view."""

from __future__ import annotations

from dataclasses import replace

from unilab_sidecar.looking.commands_by_name import Palette
from unilab_sidecar.looking.scroll_places import ScrollPlaces, ScrollTo
from unilab_sidecar.looking.viewing import ViewState

OVERVIEW = ViewState()
BUS = ViewState(view="bus")
HELP = ViewState(help=True)
COMMANDS = ViewState(palette=Palette())


def test_each_view_is_found_where_it_was_left():
    places = ScrollPlaces()

    assert places.moved(OVERVIEW, BUS, 7) == ScrollTo(0, is_other=True)
    assert places.moved(BUS, OVERVIEW, 3) == ScrollTo(7, is_other=True)
    assert places.moved(OVERVIEW, BUS, 9) == ScrollTo(3, is_other=True)


def test_a_zoomed_panel_is_a_place_of_its_own():
    places = ScrollPlaces()
    zoomed = replace(OVERVIEW, focus="rewards", zoomed=True)

    assert places.moved(OVERVIEW, zoomed, 7) == ScrollTo(0, is_other=True)
    assert places.moved(zoomed, OVERVIEW, 2) == ScrollTo(7, is_other=True)
    assert places.moved(OVERVIEW, zoomed, 7) == ScrollTo(2, is_other=True)


def test_help_and_commands_begin_at_their_top_and_lead_back_to_where_the_view_was():
    places = ScrollPlaces()

    assert places.moved(OVERVIEW, HELP, 7) == ScrollTo(0, is_other=True)
    assert places.moved(HELP, COMMANDS, 4) == ScrollTo(0, is_other=True)
    assert places.moved(COMMANDS, OVERVIEW, 1) == ScrollTo(7, is_other=True)
    assert places.moved(OVERVIEW, HELP, 7) == ScrollTo(0, is_other=True)


def test_what_is_filtered_begins_at_its_top():
    places = ScrollPlaces()
    typing = replace(BUS, typing=True)

    assert places.moved(BUS, typing, 5) == ScrollTo(0, is_other=False)
    assert places.moved(typing, typing.filtered_by("a"), 5) == ScrollTo(0, is_other=False)


def test_a_key_that_changes_nothing_of_it_leaves_it_where_it_is():
    assert ScrollPlaces().moved(OVERVIEW, replace(OVERVIEW, theme="light"), 5) is None
