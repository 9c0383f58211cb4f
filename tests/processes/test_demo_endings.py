"""However the demo ends, its helpers finish the run soon, and nothing stays on the node."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from case_runs import leftovers, processes, updates
from real_runs import until

from unilab_metrics.run.summary import read_summary
from unilab_metrics.run.verifying.verify import verify_run
from unilab_metrics.storage.lease import is_free
from unilab_metrics.transport.rendezvous import aggregator_lease, bus_directory

SUMMARY_S = 10.0
"""From the death of the training to ``run_summary.json``."""
GONE_S = 5.0 + 10.0
"""Five seconds, and the drain before them."""
SMALL = (
    "algo.num_envs=8", "algo.batch_size=32", "algo.updates_per_step=2",
    "algo.learning_starts=64", "algo.hidden_size=16", "env.episode_ticks=20",
)  # fmt: skip

Demo = subprocess.Popen[bytes]
Start = Callable[[int], Demo]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Demo] = []

    def begin(iterations: int) -> Demo:
        command = [sys.executable, "-m", "unilab_metrics", "demo", "--headless", *SMALL]
        with (tmp_path / "output").open("wb") as output:
            demo = subprocess.Popen(
                [*command, "--iterations", str(iterations)],
                cwd=tmp_path,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        started.append(demo)
        return demo

    yield begin
    for process in processes():
        process.kill()
    for demo in started:
        demo.wait()


def run_of(folder: Path) -> Path:
    """The run, once it has had its tenth iteration."""
    until(lambda: list(folder.glob("logs/sac/cart_reach/*_numpy")), 60.0)
    (run_dir,) = folder.glob("logs/sac/cart_reach/*_numpy")
    until(lambda: bus_directory(run_dir).is_dir() and len(updates(run_dir)) >= 10, 60.0)
    return run_dir


def expect_over(run_dir: Path, since_s: float) -> dict[str, Any]:
    """Nothing stays, in time, and the backend holds what the history does."""
    until(lambda: read_summary(run_dir) is not None, since_s + SUMMARY_S - time.monotonic())
    until(lambda: not leftovers(), since_s + GONE_S - time.monotonic())
    assert is_free(aggregator_lease(run_dir))
    iterations = [update.iteration for update, _ in updates(run_dir)]
    assert iterations == list(range(1, len(iterations) + 1))
    verified = verify_run(run_dir)
    assert verified.lost_frames == 0
    assert verified.points_per_tag["Train/iteration"] == len(iterations)
    summary = read_summary(run_dir)
    assert summary is not None
    assert summary["metric_schema_version"] == 1
    assert summary["completed_iterations"] == len(iterations)
    assert summary["status"] == verified.history.ended
    return summary


@pytest.mark.slow
def test_a_complete_training(start: Start, tmp_path: Path) -> None:
    demo = start(40)
    run_dir = run_of(tmp_path)
    assert demo.wait(60) == 0
    summary = expect_over(run_dir, time.monotonic())
    assert summary["status"] == "completed"
    assert summary["completed_iterations"] == 40


def test_ctrl_c(start: Start, tmp_path: Path) -> None:
    demo = start(1_000_000)
    run_dir = run_of(tmp_path)
    interrupted_s = time.monotonic()
    os.killpg(demo.pid, signal.SIGINT)
    assert demo.wait(60) == 130
    summary = expect_over(run_dir, interrupted_s)
    assert (summary["status"], summary["error"]) == ("failed", "interrupted by SIGTERM")
    assert "Status         stopped by Ctrl+C" in (tmp_path / "output").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("launcher_too", [True, False])
def test_kill_9_of_all_training_processes(launcher_too: bool, start: Start, tmp_path: Path) -> None:
    demo = start(1_000_000)
    run_dir = run_of(tmp_path)
    helpers = {process.pid for process in (*processes("aggregate"), *processes("write"))}
    view = {process.pid for process in processes("unilab_sidecar")}
    training = {process.pid for process in processes()} - helpers - view
    assert len(helpers) == 2
    if not launcher_too:
        training.discard(demo.pid)
    killed_s = time.monotonic()
    kill(training)
    assert demo.wait(60) not in {0, 130}
    assert expect_over(run_dir, killed_s)["status"] == "failed"


@pytest.mark.slow
def test_kill_9_of_one_learner(start: Start, tmp_path: Path) -> None:
    demo = start(1_000_000)
    run_dir = run_of(tmp_path)
    learners = {
        process.pid
        for process in processes("unilab_metrics.demo")
        if process.environ().get("RANK") == "1"
    }
    kill(learners)
    assert demo.wait(60) == 128 + signal.SIGKILL
    assert expect_over(run_dir, time.monotonic())["status"] == "failed"
    assert "Rank 1 was killed by SIGKILL" in (tmp_path / "output").read_text()


def kill(pids: set[int]) -> None:
    for pid in pids:
        try:
            psutil.Process(pid).kill()
        except psutil.NoSuchProcess:
            continue
