"""How much of a training is done, wherever its loop counts from."""

from __future__ import annotations

from pathlib import Path

import pytest
from long_history import LongHistory
from msgspec import structs
from series_records import announced, head, learner, picture, update

from unilab_metrics.subscribe.replay import Replay
from unilab_schema.identity import RunInfo, StepAxis
from unilab_sidecar.alerting.lagging import laggard
from unilab_sidecar.drawing.text import plain
from unilab_sidecar.panels.header import header
from unilab_sidecar.picture import Laggard


def first_line(
    axis: StepAxis, first: int | None, iteration: int, *, maximum: int = 6, elapsed_s: float = 5.0
) -> str:
    run = RunInfo("own", "task", step_axis=axis, max_iterations=maximum)
    at = structs.replace(head(0.0, run=run), first_iteration=first)
    record = update(1, {"Loss/x": 1.0}, iteration=iteration, elapsed_s=elapsed_s)
    return plain(header(picture(record, at=at), 120, short=False)[0])


@pytest.mark.parametrize("axis", ["iteration", "env_steps", "wall_time"])
def test_a_loop_from_1_is_through_at_its_maximum(axis: StepAxis) -> None:
    line = first_line(axis, 1, 1)
    assert "16.7 %" in line
    assert "ETA 0:00:25" in line
    assert "83.3 %" in first_line(axis, 1, 5)
    assert "100.0 %" in first_line(axis, 1, 6)


@pytest.mark.parametrize("axis", ["iteration", "env_steps", "wall_time"])
def test_a_loop_from_0_is_through_one_before_its_maximum(axis: StepAxis) -> None:
    line = first_line(axis, 0, 0)
    assert "16.7 %" in line
    assert "ETA 0:00:25" in line
    assert "100.0 %" in first_line(axis, 0, 5)


@pytest.mark.parametrize("first", [None, 500])
def test_a_run_that_began_elsewhere_counts_as_its_kind_does(first: int | None) -> None:
    assert "50.1 %" in first_line("iteration", first, 500, maximum=1000)
    assert "50.0 %" in first_line("env_steps", first, 500, maximum=1000)


def resumed(first: int, *iterations: int, per_s: float = 10.0) -> str:
    run = RunInfo("own", "task", step_axis="iteration", max_iterations=101_000)
    at = structs.replace(head(0.0, run=run), first_iteration=first)
    records = [
        update(k, {"Loss/x": 1.0}, iteration=iteration, elapsed_s=(iteration - first + 1) / per_s)
        for k, iteration in enumerate(iterations, start=1)
    ]
    return plain(header(picture(*records, at=at), 120, short=False)[0])


def test_who_goes_on_from_a_checkpoint_elsewhere_takes_the_time_of_what_is_left() -> None:
    assert "ETA 0:01:30" in resumed(100_000, 100_098, 100_099)
    assert "ETA 0:01:30" in resumed(100_000, 100_000, 100_050, 100_098, 100_099)


def test_nothing_is_foretold_from_one_update_of_a_run_that_did_not_begin_at_0_or_1() -> None:
    assert "ETA -" in resumed(100_000, 100_000)


def test_a_loop_that_logs_every_hundredth_iteration_has_done_those_between() -> None:
    run = RunInfo("own", "task", step_axis="env_steps", max_iterations=1000)
    at = structs.replace(head(0.0, run=run), first_iteration=100)
    records = [update(k, {"Loss/x": 1.0}, iteration=100 * k, elapsed_s=10.0 * k) for k in (1, 2, 3)]
    assert "ETA 0:01:10" in plain(header(picture(*records, at=at), 120, short=False)[0])


def again(*iterations: int, first: int = 51, per_s: float = 10.0) -> str:
    """Of an attempt that goes on behind iteration 50, after another one that took 30 s."""
    run = RunInfo("own", "task", step_axis="iteration", max_iterations=300)
    records = [
        update(k, {"Loss/x": 1.0}, iteration=one, elapsed_s=30.0 + (one - first + 1) / per_s)
        for k, one in enumerate(iterations, start=1)
    ]
    told = structs.replace(head(0.0, run=run), first_iteration=1, earlier_s=30.0)
    at = structs.replace(told, attempt_iteration=first)
    return plain(header(picture(*records, at=at), 120, short=False)[0])


def test_the_eta_after_a_restart_is_of_what_the_attempt_does_itself() -> None:
    assert "33.3 %  elapsed 0:00:35  ETA 0:00:20" in again(99, 100)
    assert "ETA 0:00:20" in again(1, 100, first=1)


def test_a_slow_rank_of_a_resumed_run_is_found() -> None:
    sources = learner(0, 100_200), learner(1, 100_100)
    assert laggard(sources, 20.0) is None
    assert laggard(sources, 20.0, 100_000) == Laggard(1, 100_100, 100)


def test_a_slow_rank_counts_from_where_the_run_does() -> None:
    run = RunInfo("ppo", "task", step_axis="iteration", max_iterations=100, world_size=2)
    told = announced(100.1, learner(0, 100, "finished", 60.0), learner(1, 55))
    at = structs.replace(told, run=run, first_iteration=1)
    record = update(1, {"Loss/x": 1.0}, iteration=100, elapsed_s=40.0, sealed_s=15.0)
    assert "55.0 %" in plain(header(picture(record, at=at), 120, short=False)[0])


def test_a_replay_tells_where_the_run_began(tmp_path: Path) -> None:
    made = LongHistory(tmp_path / "run", tags=("Loss/critic",))
    made.updates(700)
    made.begin_again(after_s=50.0)
    made.updates(700)
    run_dir = made.write()
    told = Replay(run_dir, iteration=500, is_still=True).head
    assert (told.first_iteration, told.attempt_iteration, told.earlier_s) == (1, 1, 0.0)
    told = Replay(run_dir, iteration=900, is_still=True).head
    assert (told.first_iteration, told.attempt_iteration) == (1, 701)
    assert told.earlier_s == 70.0
