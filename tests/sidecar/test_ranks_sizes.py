"""The ranks' screen at every size, scrolled, and its numbers below each other."""

from __future__ import annotations

import math

import pytest
from rank_answers import reply, run_of, table_of
from ranks_screen import PICTURE, learners, screen, text

from unilab_sidecar.drawing.layout import FRAME_CELLS, FRAME_ROWS
from unilab_sidecar.drawing.text import line_width, plain
from unilab_sidecar.ranks.state import RanksState, press
from unilab_sidecar.ranks.table import RankStore, RankTable
from unilab_sidecar.views.ranks import context, ranks


@pytest.mark.parametrize(("columns", "count"), [(70, 8), (80, 4)])
def test_where_points_have_no_room_below_each_other_the_ends_of_the_numbers_have(
    columns: int, count: int
) -> None:
    lines = screen(table_of(run_of(count, lost=2)), columns=columns, rows=24)
    rows = [one for one in lines if " mean " in one and "min " in one]
    assert any("-31" in one for one in rows)
    for word in ("min", "mean", "max"):
        numbers = [one.split(f" {word} ")[1].split()[0] for one in rows]
        starts = [one.index(f" {word} ") for one in rows]
        ends = {
            one.index(number, start) + len(number)
            for one, number, start in zip(rows, numbers, starts, strict=True)
        }
        assert len(ends) == len(set(starts)) == 1


@pytest.mark.parametrize("columns", [100, 120, 160])
def test_the_points_of_numbers_over_the_ranks_stand_below_each_other(columns: int) -> None:
    lines = screen(table_of(run_of(8, lost=2)), columns=columns)
    rows = [line for line in lines if " mean " in line and "min " in line]
    assert len(rows) > 4
    for word in ("min", "mean", "max"):
        numbers = [line.split(f" {word} ")[1].split()[0] for line in rows]
        ends = {line.index(number, line.index(f" {word} ")) + len(number.partition(".")[0])
                for line, number in zip(rows, numbers, strict=True)}  # fmt: skip
        assert len(ends) == 1, word


def test_512_ranks_scroll_to_the_last_one() -> None:
    table = table_of(run_of(512, lost=300))
    state = RanksState()
    shown: list[str] = []
    for _ in range(200):
        at = context(table, PICTURE, state, 80, 24)
        lines = screen(table, state, 80, 24)
        first = next(n for n, line in enumerate(lines) if line.startswith("rank ")) + 1
        shown += [line.split()[0] for line in lines[first : first + at.space] if line[3:4] != " "]
        following = press(state, "pagedown", at)
        if following is state or following.first == state.first:
            break
        state = following
    assert sorted(set(shown) - {"collector", "└"}, key=int) == [str(rank) for rank in range(512)]
    assert ranks(table, PICTURE, state, 80, 24).title.endswith("of 1,024")
    assert "L lost: rank 300 (74 s)" in text(table, state, 80, 24)


def test_there_is_never_less_than_fits_however_far_it_was_scrolled() -> None:
    table = table_of(run_of(20, collectors=0))
    shown = ranks(table, PICTURE, RanksState(first=500), 80, 24)
    assert shown.title == "Ranks · rows 8-20 of 20"
    assert any(plain(line).startswith("  19 ") for line in shown.lines)


SIZES = [(1, 1), (2, 3), (7, 2), (20, 5), (40, 10), (61, 12), (70, 24), (80, 24), (95, 20),
         (96, 30), (100, 30), (119, 31), (120, 40), (160, 48), (300, 100)]  # fmt: skip


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_every_size(columns: int, rows: int) -> None:
    tables = [
        RankTable(),
        table_of(run_of(1, collectors=0)),
        table_of(run_of(4, lost=2, silent=1)),
        table_of(run_of(64, lost=7, silent=9)),
        table_of(reply(learners(math.nan, math.inf, 1e300))),
        RankStore().table(),
    ]
    states = [RanksState(), RanksState("slowest", ("Loss/critic", "Nobody/has_it"), 500, False)]
    for table in tables:
        for state in [*states, press(states[0], "slash", context(table, PICTURE, states[0], 9, 9))]:
            shown = ranks(table, PICTURE, state, columns, rows)
            assert len(shown.lines) <= max(rows - FRAME_ROWS, 1)
            assert all(line_width(x) <= max(columns - FRAME_CELLS, 1) for x in shown.lines)
            assert len(shown.title) <= max(columns - FRAME_CELLS - 2, 0)
            context(table, PICTURE, state, columns, rows)


@pytest.mark.parametrize("columns", range(80, 301, 20))
def test_nothing_essential_is_cut_from_80_columns_on(columns: int) -> None:
    shown = text(table_of(run_of(64, lost=3)), columns=columns, rows=24)
    assert "…" not in shown
    for word in (
        "rank",
        "state",
        "age",
        "behind",
        "Iter Wall",
        "◀ slowest",
        "L lost",
        "slowest phase",
    ):
        assert word in shown
    assert "min 119.38 by rank 47" in " ".join(shown.split())
    assert "by rank 5" in shown
