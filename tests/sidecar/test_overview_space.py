"""Rows that a screen has to spare: the chart of the rewards first, and nothing jumps."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from series_records import head, learner, update

from unilab_schema.identity import RunInfo
from unilab_sidecar.drawing.text import plain
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.panels.bottleneck import bottleneck
from unilab_sidecar.picture import Note, Picture
from unilab_sidecar.series import Series
from unilab_sidecar.views.overview import layout

SIZES = [(100, 30), (96, 50), (119, 30), (120, 40), (160, 48), (200, 60)]
PPO = RunInfo("ppo", "walk", "numpy", "iteration", 500)


def values_of(iteration: int) -> dict[str, float]:
    """Twenty tags of a training loop of somebody's own."""
    wave = math.sin(iteration / 9)
    losses = ("value_loss", "policy_loss", "entropy", "approx_kl")
    values = {f"losses/{name}": 0.1 + wave / 20 for name in losses}
    values |= {f"env/{name}": wave for name in ("height", "slip", "torque", "speed", "energy")}
    values |= {f"reward/{name}": wave / 2 for name in ("alive", "velocity")}
    return values | {
        "Train/mean_reward": 20.0 + iteration,
        "Train/mean_episode_length": 400.0,
        "Perf/iteration_time": 0.1,
        "Perf/learner_rollout_ms": 60.0,
        "Perf/learner_update_ms": 35.0,
    }


def picture_of(algorithm: str = "ppo", *, notes: int = 0) -> Picture:
    series = Series()
    records = tuple(update(n, values_of(n), sealed_s=n / 10) for n in range(1, 121))
    run = structs.replace(PPO, algorithm=algorithm)
    there = structs.replace(head(12.0, run=run), sources=(learner(0, 120),))
    series.add(Batch(records, there, connected=True))
    return with_notes(series.picture(), notes)


def with_notes(picture: Picture, count: int) -> Picture:
    return replace(picture, notes=tuple(Note("status", f"step {n}", 1.0) for n in range(count)))


def rows_of(picture: Picture, size: tuple[int, int]) -> list[str]:
    return [plain(row) for row in layout(picture, *size).lines]


def chart_rows(rows: list[str]) -> int:
    return sum(" │" in row or " ┤" in row for row in rows)


@pytest.mark.parametrize("algorithm", ["ppo", "sac", ""])
@pytest.mark.parametrize("size", SIZES)
def test_while_a_run_goes_on_its_chart_has_the_rows_that_nothing_else_needs(
    algorithm: str, size: tuple[int, int]
):
    for notes in (0, 1, 2, 5, 30):
        rows = rows_of(picture_of(algorithm, notes=notes), size)
        assert size[1] - 2 - 3 <= len(rows) <= size[1] - 2
    rows = rows_of(picture_of(algorithm), size)
    assert len(rows) == size[1] - 2
    assert chart_rows(rows) >= size[1] // 4


@pytest.mark.parametrize("size", [*SIZES, (70, 40), (80, 60)])
def test_events_make_the_chart_smaller_in_a_few_steps_and_never_larger(size: tuple[int, int]):
    picture = picture_of()
    charts = [chart_rows(rows_of(with_notes(picture, count), size)) for count in range(41)]
    assert charts == sorted(charts, reverse=True)
    steps = sum(before != after for before, after in pairwise(charts))
    assert steps <= 2 + size[1] // 10
    shown = [sum("step " in row for row in rows_of(with_notes(picture, n), size)) for n in range(6)]
    assert shown[2:] >= [3, 4, 4, 4]


@pytest.mark.parametrize("size", SIZES)
def test_no_row_is_kept_for_what_cannot_come(size: tuple[int, int]):
    for picture in (picture_of("sac"), replace(picture_of("sac"), ended="completed")):
        assert bottleneck(picture, size[0]) == []
        assert "" not in [row.strip() for row in rows_of(picture, size)]


@settings(max_examples=60)
@given(st.integers(1, 300), st.integers(1, 100), st.integers(0, 40), st.booleans())
def test_no_size_makes_it_raise_and_no_row_too_long(
    columns: int, rows: int, notes: int, has_ended: bool
):
    picture = replace(with_notes(PICTURE, notes), ended="completed" if has_ended else None)
    for row in rows_of(picture, (columns, rows)):
        assert len(row) <= max(columns - 5, 1)


PICTURE = picture_of("sac")


@pytest.mark.parametrize("size", [*SIZES, (70, 40), (80, 24), (140, 40)])
def test_what_is_logged_now_and_then_moves_nothing_each_time(size: tuple[int, int]):
    series = Series()
    heights: list[tuple[int, int]] = []
    for n in range(1, 121):
        values = values_of(n) | {f"env/other_{k}": k / 7 for k in range(9)}
        # Once in four seconds, with a window of two.
        values |= {"eval/return": 1.0 + n, "eval/length": 2.0} if n % 40 == 1 else {}
        series.add(Batch((update(n, values, sealed_s=n / 10),), head(n / 10, run=PPO)))
        if n % 10 == 5:
            rows = rows_of(series.picture(), size)
            heights.append((len(rows), chart_rows(rows)))
    # From the first time on that it was not in the window.
    assert len(set(heights[3:])) == 1
