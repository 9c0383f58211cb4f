"""The overview of PPO-like runs: their own rows, and none of another algorithm's."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from approved_pictures import compare
from screen_text import find, text
from series_records import head, update
from still_sidecar import drive, normalised
from textual.pilot import Pilot

from unilab_schema.identity import RunInfo
from unilab_sidecar.app import SidecarApp
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.picture import Picture
from unilab_sidecar.series import Series
from unilab_sidecar.views.overview import layout

SNAPSHOTS = Path(__file__).parent / "snapshots"
N = 1500
PPO = RunInfo("rsl_rl_ppo", "go2_joystick_flat", "mujoco", "iteration", N)
RSL_RL = {
    "Loss/value": 0.0123,
    "Loss/surrogate": -0.0045,
    "Loss/entropy": 12.1,
    "Loss/learning_rate": 1e-3,
    "Policy/mean_std": 0.87,
    "Perf/total_fps": 41234.0,
    "Perf/collection_time": 0.61,
    "Perf/learning_time": 0.12,
    "Perf/iteration_time": 0.75,
    "Train/mean_reward": 12.5,
    "Train/mean_episode_length": 812.0,
    "Episode_Termination/time_out": 4.0,
    "reward/track": 1.25,
}
GIB = 2.0**30
NODE = {
    "Node/0/cpu_percent": 43.0,
    "Node/0/memory_used_bytes": 12.1 * GIB,
    "Node/0/memory_total_bytes": 24 * GIB,
    "Node/0/gpu0/util_percent": 87.0,
    "Node/0/gpu0/memory_used_bytes": 21.3 * GIB,
    "Node/0/gpu0/memory_total_bytes": 80 * GIB,
    "Node/0/gpu0/temperature_c": 64.0,
}
OFF_POLICY = ("Collector", "Replay", "Rows/s", "Buffer", "CUDA MPS", "Action Wait", "Rollout",
              "Env Step  ", "Inference", "Ingress", "Batch/Rank")  # fmt: skip


def shown(values: dict[str, float], *, iteration: int = 2, run: RunInfo = PPO) -> Picture:
    series = Series()
    record = update(1, values, iteration=iteration, elapsed_s=3.0)
    series.add(Batch((record,), head(1.0, run=run), connected=True))
    return series.picture()


def test_a_run_with_the_names_of_rsl_rl_before_3_2_has_the_same_rows() -> None:
    earlier = {tag.replace("collection_time", "collection time"): v for tag, v in RSL_RL.items()}
    assert text(shown(earlier | NODE), 120) == text(shown(RSL_RL | NODE), 120)


@pytest.mark.parametrize("columns", [70, 80, 95, 96, 119, 120, 160])
def test_collection_learning_and_iteration_are_its_rows_and_nothing_is_empty(columns: int):
    screen = text(shown(RSL_RL | NODE), columns)
    rows = [" ".join(row.split()) for row in screen.splitlines()]
    timing = [next(row for row in rows if row.startswith(label))
              for label in ("Collection", "Learning 1", "Other 2", "Iter Wall")]  # fmt: skip
    for row, numbers in zip(
        timing, ("610.00 81.3", "120.00 16.0", "20.00 2.7", "750.00 100.0"), strict=True
    ):
        assert numbers in row
    for word in OFF_POLICY:
        assert word not in screen.replace("Learner (Iter Wall)", ""), word
    assert not [row for row in rows if row.endswith(" -")]
    title = {True: "Timing ─", False: "Learner ─"}[columns < 96]
    find(screen, "Learner (Iter Wall) ─" if columns >= 120 else title)
    assert ("CPU" in screen) == (columns >= 120)
    for label in ("Surrogate", "Value", "Entropy", "Learning Rate", "Mean Std", "track",
                  "Steps/s 41,234"):  # fmt: skip
        find(screen, label)


def test_without_a_measured_iteration_the_wall_is_collection_and_learning():
    values = {tag: value for tag, value in RSL_RL.items() if tag != "Perf/iteration_time"}
    screen = text(shown(values), 80)
    row = screen.splitlines()[find(screen, "Iter Wall")[0]]
    assert row.split()[-2:] == ["730.00", "100.0"]


@pytest.mark.parametrize(("iteration", "percent"), [(0, "0.1 %"), (749, "50.0 %"), (N - 1, "100.0 %")])  # fmt: skip
def test_iterations_from_0_to_the_last_fill_the_progress_bar(iteration: int, percent: str):
    picture = shown(RSL_RL, iteration=iteration)
    assert f"iter {iteration}/{N}" in layout(picture, 100).title
    first = text(picture, 100).splitlines()[0]
    assert percent in first
    if iteration == N - 1:
        assert "ETA 0:00:00" in first


def test_an_off_policy_run_counts_to_its_maximum():
    run = RunInfo("sac", "task", step_axis="env_steps", max_iterations=200)
    assert " 50.0 %" in text(shown({"Loss/actor": 1.0}, iteration=100, run=run), 100)


def test_what_releases_of_rsl_rl_name_differently_has_its_usual_label():
    old = {tag: value for tag, value in RSL_RL.items() if "mean_std" not in tag}
    del old["Loss/value"]
    screen = text(shown(old | {"Policy/mean_noise_std": 0.5, "Loss/value_function": 0.25}), 100)
    assert "Mean Std" in screen
    assert "mean_noise_std" not in screen
    assert "Value" in screen
    # Beside the table's own tag the other one keeps its name.
    both = text(shown(RSL_RL | {"Policy/mean_noise_std": 0.5}), 100)
    find(both, "Mean Std")
    find(both, "mean_noise_std")


@pytest.mark.parametrize("columns", [80, 120])
def test_amp_and_rnd_stand_with_the_rewards_and_the_losses(columns: int):
    extras = {
        "AMP/mean_style_reward": 0.5,
        "AMP/mean_total_reward": 1.5,
        "Rnd/mean_extrinsic_reward": 3.0,
        "Rnd/mean_intrinsic_reward": 0.4,
        "Rnd/weight": 0.01,
        "Loss/rnd": 0.3,
        "Loss/amp_loss": 0.7,
    }
    picture = shown(RSL_RL | extras)
    assert [metric.label for metric in picture.rewards.terms] == [
        "Style", "Total", "Extrinsic", "Intrinsic", "track"]  # fmt: skip
    assert [metric.label for metric in picture.losses][-2:] == ["AMP", "RND"]
    assert [metric.label for metric in picture.diagnostics] == ["RND Weight"]
    assert not [metric for metric in picture.others if "Termination" not in metric.tag]
    screen = text(picture, columns)
    assert find(screen, "Rewards")[0] < find(screen, "Style")[0] < find(screen, "Collection")[0]
    of_amp = shown(RSL_RL | {"Train/mean_style_reward": 0.5, "Train/mean_task_reward": 1.0})
    assert [metric.label for metric in of_amp.rewards.terms] == ["Style", "Task", "track"]


def test_counts_of_terminations_are_no_reward():
    picture = shown(RSL_RL)
    assert [metric.tag for metric in picture.others] == ["Episode_Termination/time_out"]


def at_iteration(k: int) -> dict[str, float]:
    """What changes while it learns."""
    return {
        "Train/mean_reward": 30 - 600 / (k + 20),
        "Loss/value": 2.4 / (k + 8),
        "Loss/surrogate": -0.0045 + 0.002 * math.sin(k / 7),
        "Loss/entropy": 12.1 - k / 40,
        "Policy/mean_std": 0.87 - k / 500,
    }


@pytest.mark.parametrize("size", [(70, 24), (80, 24), (100, 30), (120, 40), (160, 48)])
def test_an_on_policy_run_looks_as_it_was_approved(size: tuple[int, int]):
    svg: list[str] = []

    async def look(app: SidecarApp, _pilot: Pilot[Any]) -> None:
        svg.append(normalised(app.export_screenshot(title="unilab-metrics")))

    records = [
        update(k + 1, RSL_RL | NODE | at_iteration(k), iteration=k, elapsed_s=0.75 * (k + 1))
        for k in range(120)
    ]  # fmt: skip
    drive([Batch(tuple(records), head(120.0, run=PPO), connected=True)], look, size=size)
    compare(SNAPSHOTS, {f"on-policy-{size[0]}x{size[1]}": svg[0]})
