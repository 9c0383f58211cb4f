"""The event file of a whole demo, read with TensorBoard's own reader and nothing of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from case_runs import Points, ended, scalars, texts, updates
from demo_tags import EPISODES, FROM_COLLECTORS, FROM_LEARNERS, LEARNER_TABLE

from unilab_metrics.run.summary import read_summary

ITERATIONS = 40
RANKS = 2
# Training begins before any episode has ended, so that it can be seen what is absent till then.
SHORT_WARM_UP = "algo.learning_starts=256"
WALL = "Perf/iteration_time"
APPO_ONLY = ("replay_stage", "weight_publish", "mlp_infer", "collection_time", "rollouts_read")


def wall_shares(points: Points) -> list[float]:
    phases = LEARNER_TABLE - {WALL, "Perf/learning_time"}
    return [
        (sum(points[tag][n][1] for tag in phases) / 1e3 + points["Perf/learning_time"][n][1])
        / points[WALL][n][1]
        for n in range(ITERATIONS)
    ]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_event_file_of_the_demo(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "unilab_metrics", "demo", "--headless", SHORT_WARM_UP]
    done = subprocess.run(
        [*command, "--ranks", str(RANKS), "--iterations", str(ITERATIONS)],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    (run_dir,) = tmp_path.glob("logs/sac/cart_reach/*_numpy")
    ended(run_dir)
    points = scalars(run_dir)

    # --- which tags there are ---
    assert set(points) == FROM_LEARNERS | FROM_COLLECTORS
    for tag in points:
        words = tag.lower()
        assert not any(name in words for name in (*APPO_ONLY, "other", "pct", "percent", "cycle"))
        assert not words.startswith(("terminal/", "rows/"))

    config = json.loads(texts(run_dir)["config"].strip("`\n"))
    assert config["algo"]["max_iterations"] == ITERATIONS

    # --- how many points they have, and where ---
    steps = [step for step, _ in points[WALL]]
    assert len(steps) == ITERATIONS
    assert steps == sorted(steps)
    for tag in set(points) - EPISODES:
        assert [step for step, _ in points[tag]] == steps, tag
    assert [value for _, value in points["Train/iteration"]] == list(range(1, ITERATIONS + 1))
    episode_steps = {tuple(step for step, _ in points[tag]) for tag in EPISODES}
    assert len(episode_steps) == 1
    (since_first_episode,) = episode_steps
    assert 0 < len(since_first_episode) < ITERATIONS
    assert list(since_first_episode) == steps[-len(since_first_episode) :]

    # --- the values are those of the history ---
    history = updates(run_dir)
    assert [update.iteration for update, _ in history] == list(range(1, ITERATIONS + 1))
    assert all(update.ranks_reported == RANKS for update, _ in history)
    in_history: Points = {}
    for update, values in history:
        assert update.env_steps is not None
        for tag, value in values.items():
            if not tag.startswith("Terminal/"):
                in_history.setdefault(tag, []).append((update.env_steps, float(np.float32(value))))
    assert points == in_history
    assert "Terminal/replay_rows_per_s" in history[0][1]

    # --- what they mean ---
    shares = wall_shares(points)
    assert max(shares) <= 1.01
    assert 0.9 <= sum(shares) / len(shares) <= 1.01
    assert {value for _, value in points["Train/replay_ingress_depth"]} == {2.0 * RANKS}
    assert {value for _, value in points["Train/replay_ingress_dropped_batches"]} == {0.0}
    assert all(0.0 <= value <= 1.0 for _, value in points["Episode/timeout_rate"])

    # --- who said it ---
    summary = read_summary(run_dir)
    assert summary is not None
    assert (summary["status"], summary["completed_iterations"]) == ("completed", ITERATIONS)
    sources = summary["bus"]["sources"]
    assert sorted((source["rank"], source["role"]) for source in sources) == [
        (rank, role) for rank in range(RANKS) for role in ("collector", "learner")
    ]
    pids = {source["pid"] for source in sources}
    assert len(pids) == 2 * RANKS
    assert os.getpid() not in pids
    assert (summary["bus"]["lost_frames"], summary["bus"]["dropped_calls"]) == (0, {})
