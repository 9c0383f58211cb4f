"""What is on the screen for what somebody looks at: titles, hints, filters, help, ASCII."""

from __future__ import annotations

import ast
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from sample_run import SampleRun
from shown_screens import sample_shown, seen, shown_of, typed

import unilab_sidecar
from unilab_sidecar.alerting.alerts import border
from unilab_sidecar.drawing.glyphs import GLYPHS, ascii_text
from unilab_sidecar.drawing.layout import FRAME_CELLS, FRAME_ROWS
from unilab_sidecar.drawing.text import line_width, plain, width_of
from unilab_sidecar.looking.showing import Shown, screen
from unilab_sidecar.looking.viewing import VIEWS, ViewState
from unilab_sidecar.picture import Metric, Note, Picture, Reading

SIZES = [(1, 1), (2, 3), (7, 2), (20, 5), (39, 11), (70, 24), (80, 24), (95, 24), (96, 30),
         (119, 40), (120, 40), (160, 48), (300, 100)]  # fmt: skip
LOOKS = (
    [],
    ["?"],
    [":"],
    ["/", "l"],
    ["tab"],
    ["tab", "enter"],
    ["tab", "tab", "enter"],
    ["space"],
)


@pytest.fixture(scope="module")
def shown() -> Shown:
    return sample_shown()


@pytest.fixture(scope="module")
def nothing() -> Shown:
    return shown_of(SampleRun(), [])


@pytest.mark.parametrize("key", "12345")
def test_no_size_makes_any_view_raise_or_too_wide(shown: Shown, nothing: Shown, key: str):
    for made_of in (shown, nothing, replace(shown, unicode=False, note="saved ~/任务/x.svg")):
        for size in SIZES:
            for look in LOOKS:
                state = typed(made_of, ViewState(), key, *look, size=size)
                made = screen(made_of, state, *size)
                room = max(size[0] - FRAME_CELLS, 1)
                assert all(line_width(line) <= room for line in made.lines), (size, look)
                assert width_of(made.title) <= max(room, 0)
                assert width_of(made.hint) <= max(room, 0)


def test_every_view_names_itself_and_its_keys(shown: Shown):
    for key, view in zip("12345", VIEWS, strict=True):
        made = screen(shown, typed(shown, ViewState(), key), 120, 40)
        assert "SAC · cart_pole_balance" in made.title
        assert made.title.lower().startswith(view) or view == "overview"
        assert "? help" in made.hint
        assert "q close" in made.hint
        if view not in ("charts", "ranks"):
            assert f"{key} {view.upper()}" in made.hint


def test_every_view_has_a_hint_on_a_small_screen(shown: Shown):
    for key in "12345":
        for columns in (27, 32, 40, 50, 60, 80):
            hint = screen(shown, typed(shown, ViewState(), key), columns, 12).hint
            assert hint.endswith("? help · q close"), (key, columns)
            assert columns < 40 or "1 to 5 views" in hint or "5 bus" in hint.lower()


def test_the_edge_says_how_many_lines_one_has_to_scroll_to(shown: Shown):
    whole = screen(shown, ViewState(), 80, 24)
    hidden = len(whole.lines) - (24 - FRAME_ROWS)
    assert hidden > 0
    assert whole.hint.startswith(f"↓ {hidden} more · 1 OVERVIEW")
    scrolled = replace(shown, top=hidden - 1)
    assert screen(scrolled, ViewState(), 80, 24).hint.startswith("↓ 1 more · ")
    for at_the_end in (replace(shown, top=hidden), replace(shown, top=hidden + 9)):
        assert screen(at_the_end, ViewState(), 80, 24).hint.startswith("1 OVERVIEW")
    # Where there is no room for both the keys are worth more than what the scroll bar says too.
    assert screen(shown, ViewState(), 70, 24).hint.startswith("1 OVERVIEW")


def test_while_tags_are_chosen_no_hint_offers_keys_that_are_typed(shown: Shown):
    for key in "23":
        assert screen(shown, typed(shown, ViewState(), key, "/"), 120, 40).hint == ""


def test_a_picture_that_stands_still_says_so_and_how_old_it_is(shown: Shown):
    for key in "12345":
        for size in ((30, 8), (80, 24)):
            state = typed(shown, ViewState(), key, "space", size=size)
            later = replace(shown, now_unix_s=1012.9)
            made = screen(later, state, *size)
            assert made.title.startswith("PAUSED at iteration 30"), size
    assert "PAUSED at iteration 300 (12 s ago)" in made.title
    hour_ago = screen(replace(shown, now_unix_s=1000.0, moment_unix_s=-3500.0), state, 80, 24)
    assert "PAUSED at iteration 300 (1 h 15 min ago)" in hour_ago.title
    minute_ago = screen(replace(shown, now_unix_s=1064.0), state, 80, 24)
    assert "PAUSED at iteration 300 (1 min 4 s ago)" in minute_ago.title
    assert "Space live" in made.hint
    live = screen(later, typed(shown, state, "space"), 80, 24)
    assert "PAUSED" not in live.title


@pytest.mark.parametrize(
    ("changed", "look", "word"),
    [
        ({}, None, ""),
        ({"ended": "completed"}, "ended", "COMPLETED"),
        ({"ended": "failed"}, "failed", "FAILED"),
        ({"ended": "cancelled"}, "failed", "CANCELLED"),
        ({"gone": ("learner",)}, "failed", "CUT OFF"),
        ({"missing_ranks": (1,), "ranks_reported": 1, "ranks_expected": 2}, "trouble", ""),
    ],
)
def test_a_border_is_red_only_for_a_run_that_did_not_end_well_and_says_so_in_words(
    shown: Shown, changed: dict[str, Any], look: str | None, word: str
):
    picture = replace(shown.picture, **changed)
    assert border(picture) == look
    for view in VIEWS:
        made = screen(replace(shown, picture=picture), ViewState(view=view), 80, 24)
        told = made.title + plain(made.lines[0]).upper()
        assert word in told, view


def test_a_view_without_data_says_so(nothing: Shown):
    assert "connecting" in seen(nothing)
    assert "No tag has come yet" in seen(nothing, "2")
    assert "Nothing has happened yet" in seen(nothing, "4")
    assert "Nobody has said anything about the bus yet" in seen(nothing, "5")


def test_a_filter_leaves_what_passes_and_counts_it(shown: Shown):
    text = seen(shown, "/", *"critic")
    assert "Filter critic" in text
    assert "2 of 21 metrics" in text
    assert "Critic Grad Norm" in text
    assert "Entropy" not in text
    # What is no metric stays.
    assert "Iter Wall" in text
    assert "Entropy" in seen(shown, "/", *"critic", "escape")
    assert "Critic" not in seen(shown, "/", *"!critic", "enter").replace("Filter !critic", "")
    assert "! /(/: " in seen(shown, "/", *"/(")


def test_more_tags_than_usual_are_shown_once_they_are_filtered(shown: Shown):
    many = tuple(Metric(f"my/tag_{n}", f"my/tag_{n}", Reading(1.0)) for n in range(12_345))
    full = replace(shown, picture=replace(shown.picture, others=many))
    assert "and 12,321 more; / filters them" in seen(full)
    text = seen(full, "/", *"tag_1234", size=(100, 30))
    assert len(re.findall(r"my/tag_1234\d? ", text)) == 6
    assert " more;" not in text


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_what_passes_a_filter_comes_before_the_timing(shown: Shown, size: tuple[int, int]):
    others = tuple(Metric(f"my/tag_{n}", f"my/tag_{n}", Reading(1.0)) for n in range(50))
    full = replace(shown, picture=replace(shown.picture, others=others))
    before = seen(full, size=size)
    assert before.index("Iter Wall") < before.index("my/tag_1 ")
    for word in ("tag_1", "norm"):
        rows = seen(full, "/", *word, size=size).splitlines()
        place = next(place for place, row in enumerate(rows[2:]) if word in row.lower())
        assert place < next(place for place, row in enumerate(rows) if "Collector Wait" in row)


def test_a_panel_on_the_whole_screen_has_everything(shown: Shown):
    sources = shown.picture.sources * 10
    full = replace(shown, picture=replace(shown.picture, sources=sources))
    assert "and 24 more" in seen(full)
    state = replace(ViewState(), focus="sources", zoomed=True)
    lines = screen(full, state, 100, 30).lines
    assert len(lines) == 2 + 40
    assert "Enter or Esc" in screen(full, state, 100, 30).hint


def test_the_panel_that_is_meant_is_marked_without_moving_anything(shown: Shown):
    for size in ((80, 24), (100, 30), (160, 48)):
        plain_lines = screen(shown, ViewState(), *size).lines
        marked = screen(shown, typed(shown, ViewState(), "tab", size=size), *size).lines
        differing = [n for n, (a, b) in enumerate(zip(plain_lines, marked, strict=True)) if a != b]
        assert differing
        for n in differing:
            assert line_width(plain_lines[n]) == line_width(marked[n])
    assert "▸ Losses and policy ─" in seen(shown, "tab")


def test_events_are_listed_newest_first_below_what_is_wrong(shown: Shown):
    notes = (
        Note("status", "loading", 30.0, None, (0, 1)),
        Note("checkpoint", "checkpoint model_5.pt", 20.0, 5, (0,)),
        Note("warning", "Loss/x: no number", 10.0, None, (1,), refused=True),
    )
    picture = replace(shown.picture, notes=notes, ranks_reported=1, missing_ranks=(1,))
    full = replace(shown, picture=picture)
    for size in ((70, 24), (120, 40)):
        text = seen(full, "4", size=size)
        order = ["Alerts ─", "missing: rank 1", "Events ─", "refused", "model_5.pt", "loading"]
        places = [text.index(word) for word in order]
        assert places == sorted(places)
        assert text.count("checkpoint") == 1
    assert "model_5.pt" not in seen(full, "4", "/", *"refused")
    assert "No event passes this filter" in seen(full, "4", "/", *"zzz")


def test_the_bus_says_what_is_missing_by_reason_and_who_waits(shown: Shown):
    first, *others = shown.picture.sources
    met = structs.replace(first, drops={"quota": 120}, troubles={"key_refused": 2}, lost_frames=3)
    full = replace(shown, picture=replace(shown.picture, sources=(met, *others), dropped=123))
    for size in ((70, 24), (120, 40)):
        text = seen(full, "5", size=size)
        for words in (r"quota +120", r"lost frames +3", r"key refused \(cost nothing\) +2",
                      r"journal +303", r"on disk +301", r"tensorboard +299"):  # fmt: skip
            assert re.search(words, text), (size, words)
    assert "nothing" in seen(shown, "5")
    assert "No source passes" in seen(full, "5", "/", *"zzz")


def test_the_help_has_every_key_of_every_view(shown: Shown):
    for columns in (40, 80, 160):
        text = " ".join(seen(shown, "?", size=(columns, 100)).split())
        for words in ("Space", "filter:", "Ctrl+P", "the training goes on", "log", "Tab"):
            assert words in text
    assert seen(shown, "2", "?").index("choose tags") < seen(shown, "2", "?").index("Tab ")


def test_every_glyph_of_the_sources_has_a_likeness_in_ascii_of_one_cell():
    found: set[str] = set()
    for path in Path(unilab_sidecar.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= {character for character in node.value if not character.isascii()}
    # What is named as a character that must not reach the terminal.
    found -= set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufffd")
    unknown = {one for one in found if one not in GLYPHS and not "\u2800" <= one <= "\u28ff"}
    assert not unknown
    for glyph, likeness in GLYPHS.items():
        assert len(likeness) == 1 == width_of(glyph)
        assert likeness.isascii()


def test_marks_of_states_stay_apart_in_ascii():
    assert len(set(ascii_text("●○◌✓✗■!"))) == 7
    assert len(set(ascii_text("↗→↘"))) == 3


@pytest.mark.parametrize("key", "12345?:")
def test_without_unicode_everything_is_ascii_and_stands_where_it_stood(shown: Shown, key: str):
    others = (Metric("任务/é", "任务/é", Reading(math.nan)),)
    full = replace(shown, picture=replace(shown.picture, others=others))
    state = typed(full, ViewState(), key)
    for size in ((80, 24), (160, 48)):
        before = screen(full, state, *size)
        after = screen(replace(full, unicode=False), state, *size)
        assert after.title.isascii()
        assert after.hint == ascii_text(before.hint)
        for line in after.lines:
            assert all(part.text.isascii() for part in line)
        if key != "2":
            assert [line_width(a) for a in before.lines] == [line_width(b) for b in after.lines]


def test_an_empty_picture_is_shown_with_any_state():
    made_of = replace(sample_shown(5), picture=Picture())
    for focus in ("metrics", "events", "gone"):
        state = replace(ViewState(), focus=focus, zoomed=True)
        assert screen(made_of, state, 80, 24).lines
