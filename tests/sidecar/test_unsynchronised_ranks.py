"""Ranks that do not wait for each other: elapsed time, ETA, who is far behind, and which values
count once some are through."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs
from rank_answers import run_of
from sample_run import SampleRun
from series_records import SAC, announced, head, learner, picture, update
from shown_screens import sample_shown, typed

from unilab_schema.control import Head
from unilab_schema.rank_values import RankSpread
from unilab_schema.updates import Update
from unilab_sidecar.alerting.lagging import laggard
from unilab_sidecar.drawing.text import plain
from unilab_sidecar.feeding.questions import Answer, RanksQuestion
from unilab_sidecar.feeding.summary import summary_in
from unilab_sidecar.looking.showing import screen
from unilab_sidecar.looking.viewing import ViewState
from unilab_sidecar.panels.header import header
from unilab_sidecar.picture import Laggard, Picture
from unilab_sidecar.printed.plain import format_line
from unilab_sidecar.progress.counting import Counting
from unilab_sidecar.ranks.state import RanksState
from unilab_sidecar.ranks.table import RankStore
from unilab_sidecar.values.headline_figures import pace_of
from unilab_sidecar.views.ranks import ranks


def shown(at: Head, iteration: int, elapsed_s: float, sealed_s: float = 15.0) -> Picture:
    values = {"Perf/total_fps": 1.0}
    return picture(
        update(1, values, iteration=iteration, elapsed_s=elapsed_s, sealed_s=sealed_s), at=at
    )


def test_elapsed_and_eta_are_of_the_training_and_not_of_its_fastest_rank() -> None:
    # Rank 0 was through with iteration 12 after 5 s, rank 1 after 15 s.
    made = shown(announced(15.1, learner(0, 37), learner(1, 12)), 12, 5.0)
    assert made.elapsed_s == 15.1
    assert made.eta_s == pytest.approx(15.0 / 12 * 88)
    assert "elapsed 0:00:15  eta 0:01:50" in format_line(made)


def test_a_rank_that_is_left_alone_goes_on() -> None:
    sources = learner(0, 100, "finished", 60.0), learner(1, 55)
    made = shown(announced(100.1, *sources), 100, 40.0)
    assert made.elapsed_s == 100.1
    assert made.eta_s == pytest.approx(100.0 / 55 * 45)
    first = plain(header(made, 120, short=False)[0])
    assert "55.0 %" in first
    assert "elapsed 0:01:40  ETA 0:01:21" in first


def test_what_an_iteration_has_taken_so_far_does_not_raise_the_eta() -> None:
    at = announced(90.0, learner(0, 1, age_s=30.0), learner(1, 1, age_s=30.0), mono_s=90.0)
    made = shown(at, 1, 60.0, sealed_s=60.0)
    assert (made.elapsed_s, made.eta_s) == (90.0, 60.0 * 99)


def test_without_a_word_of_the_aggregator_the_update_counts() -> None:
    made = shown(head(15.0), 25, 50.0)
    assert (made.elapsed_s, made.eta_s, made.laggard) == (50.0, 150.0, None)
    other = structs.replace(announced(700.0), attempt=2)
    record = update(1, {"x": 1.0}, iteration=25, elapsed_s=50.0)
    assert isinstance(record.entry, Update)
    assert picture(record, at=other).elapsed_s == 50.0


def test_after_the_end_the_summary_tells_how_long_it_took() -> None:
    summary = summary_in(b'{"bus": {"attempt": 1}, "training_wall_time_sec": 36.0}', 1)
    assert summary is not None
    record = update(1, {"x": 1.0}, iteration=100, elapsed_s=12.0)
    assert isinstance(record.entry, Update)
    assert pace_of(record.entry, SAC, None, (), Counting(), summary.training_s).elapsed_s == 36.0
    for odd in ("-1", "true", '"9"', "null", "1e300"):
        text = f'{{"bus": {{"attempt": 1}}, "training_wall_time_sec": {odd}}}'
        summary = summary_in(text.encode(), 1)
        assert summary is not None
        assert summary.training_s is None


def test_only_who_is_far_behind_and_at_work_is_named() -> None:
    assert laggard((learner(0, 100), learner(1, 47)), 30.0) == Laggard(1, 47, 53)
    # A few iterations, or hardly any time.
    assert laggard((learner(0, 100), learner(1, 95)), 300.0) is None
    assert laggard((learner(0, 1000), learner(1, 990)), 100.0) is None
    # It logs no more, as rank 0 alone does, or is gone.
    assert laggard((learner(0, 100), learner(1, 1, age_s=29.0)), 30.0) is None
    assert laggard((learner(0, 100), learner(1, 47, "lost")), 30.0) is None
    assert laggard((learner(0, 100), learner(1, None)), 30.0) is None
    assert laggard((), 30.0) is None


@pytest.mark.parametrize("columns", [80, 120, 160])
def test_the_overview_names_who_is_far_behind(columns: int) -> None:
    made = shown(announced(15.1, learner(0, 37), learner(1, 12)), 12, 5.0)
    lines = [plain(one) for one in header(made, columns - 5, short=columns < 96)]
    assert any("● 2 live  W rank 1 25 behind" in one for one in lines)


def test_values_of_who_is_through_stand_in_parentheses_and_out_of_the_sum() -> None:
    answer = run_of(2, collectors=0)
    rows = (answer.rows[0], structs.replace(answer.rows[1], state="finished", ended="failed"))
    key = rows[0].key
    spreads = tuple(RankSpread(1, 0, 1.0, 1.0, 1.0, key, key) for _ in answer.spreads)
    store = RankStore()
    store.add(Answer(RanksQuestion(), structs.replace(answer, rows=rows, spreads=spreads)), "sac")
    lines = [plain(one) for one in ranks(store.table(), Picture(), RanksState(), 200, 40).lines]
    text = "\n".join(lines)
    assert "Over the ranks at work: 1 of 2" in text
    assert "over the mean" not in text
    (failed,) = (one for one in lines if one.lstrip().startswith("1  ") and "X failed" in one)
    (live,) = (one for one in lines if "● live" in one)
    assert "(1,0" in failed
    assert "(" not in live
    (wall,) = (one for one in lines if one.startswith("Iter Wall, ms"))
    assert "by rank 0" in wall
    assert "max" not in wall


@pytest.mark.parametrize(
    ("key", "view"), [("2", "Charts"), ("3", "Ranks"), ("4", "Ev"), ("5", "B")]
)
@pytest.mark.parametrize("columns", [80, 160])
def test_every_view_says_that_something_is_wrong(key: str, view: str, columns: int) -> None:
    run = SampleRun()
    well = sample_shown()
    failed = tuple(
        structs.replace(one, state="failed") if one.key.rank == 1 else one
        for one in run.head(("live",) * 4).sources
    )
    wrong = replace(well, picture=replace(well.picture, sources=failed))
    state = typed(well, ViewState(), key)
    title = screen(wrong, state, columns, 30).title
    assert title.startswith(view)
    assert "! 1 alert · ✗ 2 failed" in title
    assert "alert" not in screen(well, state, columns, 30).title
    assert "! 1 alert" in screen(replace(wrong, unicode=False), state, columns, 30).title


def test_a_panel_alone_says_it_too() -> None:
    well = sample_shown()
    wrong = replace(well, picture=replace(well.picture, ranks_reported=1, missing_ranks=(1,)))
    assert "alert" not in screen(wrong, ViewState(), 120, 40).title
    alone = typed(wrong, ViewState(), "tab", "enter")
    assert "! 1 alert" in screen(wrong, alone, 120, 40).title
