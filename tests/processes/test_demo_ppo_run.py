"""A whole PPO of the demo: its event file, its history, its summary, and what a screen shows."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from case_runs import Points, ended, scalars, texts, updates
from demo_tags import EPISODES, GRADIENT_SYNC, REWARD_TERMS
from sample_run import SampleRun
from series_records import head
from shown_screens import shown_of, text_of

from unilab_metrics.run.summary import read_summary
from unilab_metrics.subscribe.history import HistoryReader, HistoryRecord
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_schema.updates import AttemptOpened, Update
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.looking.showing import screen
from unilab_sidecar.looking.viewing import ViewState

RANKS, ITERATIONS, ENVS, TICKS = 2, 40, 16, 24
WALL = "Perf/iteration_time"
PHASES = {"Perf/collection_time", "Perf/learning_time"}
TRAINING = {
    "Loss/surrogate",
    "Loss/value",
    "Loss/entropy",
    "Loss/learning_rate",
    "Policy/mean_std",
    "Train/global_gradient_norm",
    "Train/approx_kl",
    "Train/clip_fraction",
    "Perf/total_fps",
    WALL,
}
OFF_POLICY = (
    "Collector", "Replay", "Rows/s", "Buffer", "CUDA MPS", "Action Wait", "Rollout", "Inference",
    "Ingress", "Batch/Rank", "Actor", "Critic", "Target Q", "Temperature",
)  # fmt: skip


@pytest.fixture(scope="module")
def command() -> list[str]:
    small = (f"algo.num_envs={ENVS}", "algo.hidden_size=16", "env.episode_ticks=60")
    return ["--algorithm", "ppo", "--iterations", str(ITERATIONS), *small]


def finished(command: list[str], folder: Path, **environ: str) -> Path:
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env=os.environ | environ,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    (run_dir,) = folder.glob("logs/rsl_rl_ppo/cart_reach/*_numpy")
    ended(run_dir)
    return run_dir


def history_of(run_dir: Path) -> list[HistoryRecord]:
    with HistoryReader(bus_directory(run_dir)) as reader:
        found: list[HistoryRecord] = []
        while records := reader.poll():
            found += records
    return found


def seen_live(records: list[HistoryRecord], columns: int, rows: int) -> str:
    """The whole screen as a viewer has it at the last iteration, before the run has ended."""
    # Anew when rank 0 says what it trains, if another rank was heard first.
    opened = [r.entry for r in records if isinstance(r.entry, AttemptOpened)][-1]
    last = [place for place, r in enumerate(records) if isinstance(r.entry, Update)][-1]
    newest = records[last].entry
    assert isinstance(newest, Update)
    announced = head(newest.sealed_mono_ns / 1e9, run=opened.run)
    batches = [Batch(tuple(records[: last + 1]), announced, connected=True)]
    return text_of(screen(shown_of(SampleRun(), batches), ViewState(), columns, rows))


def check_points(points: Points, run_dir: Path) -> None:
    assert set(points) == TRAINING | PHASES | GRADIENT_SYNC | REWARD_TERMS | EPISODES
    steps = list(range(ITERATIONS))
    for tag in set(points) - EPISODES:
        assert [step for step, _ in points[tag]] == steps, tag
    (since_first_episode,) = {tuple(step for step, _ in points[tag]) for tag in EPISODES}
    assert list(since_first_episode) == steps[-len(since_first_episode) :]

    history = updates(run_dir)
    assert [update.iteration for update, _ in history] == steps
    assert all(update.ranks_reported == RANKS for update, _ in history)
    samples = ENVS * TICKS * RANKS
    assert [update.env_steps for update, _ in history] == [samples * (n + 1) for n in steps]
    in_history: Points = {}
    for update, values in history:
        for tag, value in values.items():
            if not tag.startswith("Terminal/"):
                assert update.iteration is not None
                in_history.setdefault(tag, []).append((update.iteration, float(np.float32(value))))
    assert points == in_history

    walls, phases = (
        np.array([[value for _, value in points[tag]] for tag in tags]).sum(axis=0)
        for tags in ({WALL}, PHASES)
    )
    assert (phases <= walls * 1.001).all()
    # Of single iterations a busy machine may take any part away between two phases.
    assert phases.sum() > 0.8 * walls.sum()
    assert {value for _, value in points["Perf/dp_gradient_sync_calls_per_rank"]} == {8.0}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_run_of_ppo_from_its_values_to_the_screen(tmp_path: Path, command: list[str]) -> None:
    demo = [sys.executable, "-m", "unilab_metrics", "demo", "--headless", "--ranks", str(RANKS)]
    run_dir = finished([*demo, *command], tmp_path)
    check_points(scalars(run_dir), run_dir)

    config = json.loads(texts(run_dir)["config"].strip("`\n"))
    assert (config["algo"]["schedule"], config["algo"]["num_envs"]) == ("adaptive", ENVS)
    summary = read_summary(run_dir)
    assert summary is not None
    assert (summary["algo"], summary["status"]) == ("ppo", "completed")
    assert (summary["completed_iterations"], summary["world_size"]) == (ITERATIONS, RANKS)
    assert summary["run_env_steps"] == ITERATIONS * summary["samples_per_iteration"]
    assert summary["samples_per_iteration"] == ENVS * TICKS * RANKS
    assert summary["last_checkpoint"].endswith(f"model_{ITERATIONS}.pt")
    assert "runtime_manifest" not in summary
    sources = summary["bus"]["sources"]
    assert sorted((source["rank"], source["role"]) for source in sources) == [
        (rank, "learner") for rank in range(RANKS)
    ]
    assert (summary["bus"]["lost_frames"], summary["bus"]["dropped_calls"]) == (0, {})

    records = history_of(run_dir)
    for columns, rows in ((80, 24), (120, 40)):
        shown = seen_live(records, columns, rows)
        # What the last row does not hold can be scrolled to.
        lines = [" ".join(line.split()) for line in shown.splitlines()[: rows - 1]]
        assert lines[0].startswith(f"PPO · cart_reach · GPUs {RANKS} · iter {ITERATIONS - 1}/40")
        for word in OFF_POLICY:
            assert word not in shown, (word, shown)
        for label in ("Surrogate", "Value", "Entropy", "Learning Rate", "Mean Std", "Mean",
                      "Steps/s", "Collection", "Learning", "Other", "Iter Wall"):  # fmt: skip
            (line, *_) = [line for line in lines if re.search(rf"\b{label} [\d-]", line)]
            assert re.search(rf"\b{label} -?\d", line), line
        assert not [line for line in lines if re.search(r" -( |$)", line)]
        assert "100.0" in next(line for line in lines if line.startswith("Iter Wall"))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_torchrun_starts_ranks_of_ppo_as_well(tmp_path: Path, command: list[str]) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                str(RANKS), "-m", "unilab_metrics.demo"]  # fmt: skip
    run_dir = finished([*torchrun, *command], tmp_path, OMP_NUM_THREADS="1")
    check_points(scalars(run_dir), run_dir)
