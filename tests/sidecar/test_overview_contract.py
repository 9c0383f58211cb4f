"""What the logging document and the checklist say of the terminal, read from the screen."""

from __future__ import annotations

import re

import pytest
from screen_text import find
from screen_text import text as whole_text
from series_records import SAC, event, head, update

from unilab_schema.identity import RunInfo
from unilab_sidecar.app import REPAINT_S
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.picture import Picture
from unilab_sidecar.series import Series

APPO = RunInfo("appo", "walk", "mujoco", "env_steps", 100, world_size=2)
TIERS = [70, 80, 95, 96, 119, 120, 160]


def shown(values: dict[str, float], run: RunInfo = SAC) -> Picture:
    series = Series()
    series.add(Batch((update(1, values),), head(1.0, run=run), connected=True))
    return series.picture()


def text(picture: Picture, columns: int) -> str:
    # A heading of its own is no row.
    return whole_text(picture, columns).replace("(Iter Wall)", " " * 11)


def row(screen: str, label: str) -> str:
    """From the label to the end of its column."""
    line, column = find(screen, label)
    return re.split(r" {3,}(?=[A-Z])", screen.splitlines()[line][column:])[0]


WALL = {"Perf/iteration_time": 0.1, "Perf/learning_time": 0.06}
TICK = {
    "Perf/collector_inference_request_ms": 0.3,
    "Perf/collector_learner_action_wait_ms": 60.0,
    "Perf/collector_env_step_ms": 30.0,
    "Perf/collector_env_step_backend_ms": 25.0,
    "Perf/collector_env_step_update_state_ms": 0.4,
    "Perf/collector_transition_extract_ms": 1.0,
    "Perf/collector_replay_write_ms": 8.0,
    "Perf/collector_metrics_publish_ms": 0.7,
}


@pytest.mark.parametrize("columns", TIERS)
def test_quiet_diagnostics_appear_from_one_percent_on_and_details_are_indented(columns: int):
    screen = text(shown(WALL | TICK), columns)
    labels = ["Learner Action Wait", "Env Step ", "  Backend Step", "Transition Extract",
              "Replay Write"]  # fmt: skip
    places = [find(screen, label) for label in labels]
    assert [line for line, _ in places] == sorted(line for line, _ in places)
    assert len({column for _, column in places}) == 1
    for label, percent in (("Backend Step", "25.0"), ("Transition Extract", "1.0")):
        assert row(screen, label).split()[3] == percent
    for quiet in ("Inference Request", "Metrics Publish", "Update State", "Inference Wait"):
        assert quiet not in screen


@pytest.mark.parametrize("columns", TIERS)
def test_core_rows_of_the_collector_are_there_before_their_first_report(columns: int):
    screen = text(shown(WALL | {"Perf/collector_env_step_ms": 30.0}), columns)
    for label in ("Learner Action Wait", "Replay Write"):
        assert row(screen, label).split()[-1] == "-"
    assert row(screen, "Env Step ").split()[2:] == ["30.00"]


@pytest.mark.parametrize("columns", TIERS)
def test_appo_has_its_own_phases_and_three_values_in_milliseconds_only(columns: int):
    values = WALL | {
        "Perf/learner_collector_wait_ms": 10.0,
        "Perf/learner_replay_stage_ms": 20.0,
        "Perf/learner_replay_sample_ms": 2.0,
        "Perf/learner_weight_publish_ms": 4.0,
        "Perf/collector_mlp_infer_ms": 1.25,
        "Perf/collector_env_step_ms": 3.5,
        "Perf/collection_time": 0.375,
        "Train/ring_available_slots": 3.0,
        "Train/rollouts_read": 2.0,
        "Terminal/num_envs": 8.0,
    }
    screen = text(shown(values, APPO), columns)
    phases = ["Collector Wait", "Replay Stage", "Replay Sample", "Learning", "Weight Publish",
              "Other", "Iter Wall"]  # fmt: skip
    lines = [find(screen, phase)[0] for phase in phases]
    assert lines == sorted(lines)
    for label, ms in (("MLP Infer", "1.25"), ("Env Step ", "3.50"), ("Rollout Wall", "375.00")):
        assert row(screen, label).split()[2:] == [ms]
    for foreign in ("Replay Batch Wait", "Collector Release", "Action Wait", "Replay Write",
                    "Rows/s", "Buffer"):  # fmt: skip
        assert foreign not in screen
    find(screen, "Ring Slots")
    find(screen, "Rollouts Read")


@pytest.mark.parametrize("columns", TIERS)
def test_phases_that_overlap_are_a_contract_alert_that_is_never_cut(columns: int):
    values = {"Perf/iteration_time": 0.01, "Perf/learning_time": 0.012}
    screen = text(shown(values), columns)
    assert "…" not in screen
    words = " ".join(screen.split())
    assert "! phases overlap: 120.0 % of wall" in words
    assert "overlap" in words
    assert row(screen, "Learning").split()[1:3] == ["12.00", "120.0"]
    assert row(screen, "Other").split()[1:3] == ["0.00", "0.0"]
    assert row(screen, "Iter Wall").split()[2:4] == ["10.00", "100.0"]


@pytest.mark.parametrize(
    ("state", "word"), [({}, "off"), (0.0, "off"), (1.0, "ambient"), (2.0, "on")]
)
def test_cuda_mps_is_off_without_evidence(state: float | dict[str, float], word: str):
    values = {"Terminal/num_envs": 8.0}
    if isinstance(state, float):
        values["Terminal/mps"] = state
    screen = text(shown(WALL | values), 120)
    assert row(screen, "CUDA MPS").split() == ["CUDA", "MPS", word]


def test_the_system_column_has_its_rows_in_order_and_no_timeout_rate_before_an_episode_ends():
    values = {
        "Terminal/buffer_size": 123_456.0,
        "Terminal/buffer_capacity": 400_000.0,
        "Terminal/num_envs": 256.0,
        "Terminal/batch_per_rank": 1024.0,
    }
    screen = text(shown(WALL | values | {"Episode/timeout_rate": 0.251}), 120)
    labels = ["System", "Buffer", "Timeout Rate", "Envs", "Batch/Rank", "CUDA MPS"]
    places = [find(screen, label) for label in labels]
    assert [line for line, _ in places] == list(range(places[0][0], places[0][0] + 6))
    assert row(screen, "Buffer").split() == ["Buffer", "123,456", "/", "400,000"]
    assert row(screen, "Timeout Rate").split() == ["Timeout", "Rate", "25.1", "%"]
    assert "Timeout Rate" not in text(shown(WALL | values), 120)


def test_before_the_first_finished_episode_there_is_no_reward_and_no_episode_length():
    screen = text(shown(WALL), 100)
    for word in ("Rewards", "Peak", "Episode Length"):
        assert word not in screen


@pytest.mark.parametrize("columns", TIERS)
def test_gauges_of_the_ingress_and_diagnostics_are_indented_and_never_among_the_losses(
    columns: int,
):
    values = {
        "Loss/actor": 1.0,
        "Loss/aux_recon": 0.5,
        "Policy/mean_std": 0.5,
        "Train/global_gradient_norm": 2.0,
        "Train/replay_ingress_depth": 4.0,
        "Train/replay_ingress_backpressure_wait_ms": 7.0,
        "Train/replay_ingress_dropped_batches": 0.0,
    }
    screen = text(shown(values), columns)
    lines = screen.splitlines()
    losses, training = find(screen, "Losses and policy")[0], find(screen, "Training")[0]
    among = "\n".join(lines[losses:training])
    for label in ("Actor", "Mean Std", "recon"):
        assert label in among
    assert "Ingress" not in among
    assert "Grad Norm" not in among
    below = lines[training + 1 : training + 5]
    for label in ("Global Grad Norm", "Ingress Depth", "Ingress Backpressure", "Ingress Drops"):
        assert any(label in line for line in below), label
    for line in below[:2]:
        assert line.startswith("  ")
        assert line[2] != " "
    assert "Collector Wait" not in screen


@pytest.mark.parametrize("columns", [70, 80, 96, 120])
def test_while_the_buffer_fills_a_bar_says_how_far_and_no_time_of_training_runs(columns: int):
    series = Series()
    filling = event(1, "status", "warm-up: 1280 of 5120 replay rows", fill=0.25)
    series.add(Batch((filling,), head(1.0), connected=True))
    screen = text(series.picture(), columns)
    find(screen, "warm-up: 1280 of 5120 replay rows")
    bar = next(line for line in screen.splitlines() if "25.0 %" in line)
    drawn = bar.removesuffix("25.0 %").rstrip()
    counts = sorted((drawn.count(mark) for mark in set(drawn)), reverse=True)
    assert counts[0] / sum(counts) == pytest.approx(0.75, abs=0.05)
    for word in ("elapsed", "ETA", "Steps/s"):
        assert word not in screen
    series.add(Batch((update(2, WALL, elapsed_s=2.0),), head(2.0), connected=True))
    screen = text(series.picture(), columns)
    assert "25.0 %" not in screen
    find(screen, "elapsed 0:00:02")


def test_milliseconds_of_a_phase_are_a_mean_and_never_a_sum_of_both_clocks():
    screen = text(shown(WALL | TICK), 120)
    assert row(screen, "Iter Wall").split()[2:4] == ["100.00", "100.0"]
    assert row(screen, "Learning").split()[1:3] == ["60.00", "60.0"]
    assert row(screen, "Other").split()[1:3] == ["40.00", "40.0"]


def test_the_screen_is_painted_at_a_fixed_two_hertz():
    assert REPAINT_S == 0.5
