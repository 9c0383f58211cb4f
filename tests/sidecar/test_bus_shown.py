"""The bus on the screen: why nobody tells of it, and counts that are no counts."""

from __future__ import annotations

import math
import sys
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from series_records import event, head, picture, update

from unilab_metrics.subscribe.pace import Pace
from unilab_sidecar.drawing.text import plain
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.feeding.questions import Answer, PaceQuestion
from unilab_sidecar.looking.viewing import ViewState
from unilab_sidecar.looking.watching import Watching
from unilab_sidecar.panels import bus, bus_flow
from unilab_sidecar.panels.node import node, node_cells
from unilab_sidecar.picture import BusFigures, Picture, Reading
from unilab_sidecar.views.bus import view

ANY = st.floats() | st.sampled_from([sys.float_info.max, -sys.float_info.max])


def shown(of: Picture, columns: int = 110) -> str:
    return "\n".join(plain(row) for row in view(of, None, ViewState(), columns, 40).lines)


@pytest.mark.parametrize("columns", [40, 80, 110])
def test_without_sources_it_says_why(columns: int) -> None:
    def words(of: Picture) -> str:
        return " ".join(shown(of, columns).split())

    nobody = Picture()
    assert "sources appear with the aggregator's first word." in words(nobody)
    for over in (replace(nobody, ended="completed"), replace(nobody, gone=("trainer",))):
        assert "Nobody is at work any more who would tell of sources and writers." in words(over)
        assert "yet" not in words(over)
    for played in (replace(nobody, is_played=True), replace(over, is_played=True)):
        assert "A replay has no live figures of the bus" in words(played)
        assert "yet" not in words(played)


def test_a_replay_claims_nothing_of_what_its_history_does_not_say() -> None:
    watching = Watching("run")
    record = update(1, {"Loss/a": 1.0})
    batch = Batch((record,), head(1.0), connected=True)
    watching.take(batch, is_paused=False)
    watching.take(Batch((), head(2.5), connected=True), is_paused=False)
    watching.looked_at()
    live = shown(watching.seen(ViewState()).picture)
    assert "no late values" in live
    assert "The aggregator spoke" in live
    assert "Frames taken" in live
    answer = Answer(PaceQuestion(), Pace(1.0, is_paused=False))
    watching.take(Batch((), head(4.0), connected=True, answers=(answer,)), is_paused=False)
    watching.looked_at()
    played = shown(watching.seen(ViewState()).picture)
    assert "A replay has no live figures of the bus" in played
    assert "late values" not in played
    assert "The aggregator spoke" not in played
    assert "Frames taken" not in played
    assert "Updates  " in played


@given(st.lists(ANY, min_size=8, max_size=8), st.sampled_from([20, 80, 120]))
@example([math.inf] * 8, 120)
@example([math.nan] * 8, 120)
@example([sys.float_info.max] * 8, 120)
@example([math.inf, -math.inf] * 4, 80)
def test_figures_of_any_size_have_words(values: list[float], columns: int) -> None:
    dropped, waiting, *rest = values
    figures = ("util_percent", "memory_used_bytes", "memory_total_bytes")
    record = update(
        1,
        {"Bus/dropped/queue_full": dropped}
        | {
            f"Node/0/gpu{gpu}/{figure}": value
            for gpu in range(6)
            for figure, value in zip(figures, rest[:3], strict=True)
        }
        | {
            f"Node/0/memory_{kind}_bytes": value
            for kind, value in zip(("used", "total"), rest[3:5], strict=True)
        },
    )
    of = picture(record)
    of = replace(of, bus=BusFigures(Reading(waiting), Reading(rest[5]), Reading(rest[4])))
    assert all(len(row) <= columns for row in shown(of, columns).splitlines())
    for block in (bus.writers(of, columns), bus_flow.flow(of, columns), node(of, columns)):
        assert block is not None
    node_cells(of, columns)


def test_counts_are_written_out_as_long_as_they_fit() -> None:
    for value, words in (
        (1.0, "1"),
        (2.7, "2"),
        (12_345_678.0, "12,345,678"),
        (sys.float_info.max, "1.80e+308"),
        (math.inf, "inf"),
    ):
        row = next(
            row
            for row in shown(picture(update(1, {"Bus/dropped/queue_full": value}))).splitlines()
            if "! " in row
        )
        assert f" {words} " in row


def test_memory_beyond_a_float_is_told_and_added_up() -> None:
    most = sys.float_info.max
    values = {
        f"Node/0/gpu{gpu}/memory_{kind}_bytes": most
        for gpu in range(6)
        for kind in ("used", "total")
    }
    cells = node_cells(picture(update(1, values)), 60)
    assert [cell.text for cell in cells] == ["1.00e+300/1.00e+300 GiB"]


@given(ANY)
@example(math.inf)
@example(math.nan)
def test_an_announcement_of_any_age_has_a_moment(age_s: float) -> None:
    made = picture(event(1, "status", "here", at_s=1.0), update(2, {"Loss/a": 1.0}), age_s=age_s)
    assert [note.text for note in made.notes] == ["here"]
