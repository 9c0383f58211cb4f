"""However the demo ends, its helpers finish the run soon, and nothing stays on the node."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
from case_runs import kill_processes, leftovers, processes, updates
from real_runs import fastest_s, summary_s, until

from unilab_metrics.run.summary import read_summary
from unilab_metrics.run.verifying.verify import verify_run
from unilab_metrics.storage.lease import is_free
from unilab_metrics.transport.rendezvous import aggregator_lease, bus_directory

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SUMMARY_S = 10.0
"""From the death of the training to ``run_summary.json``."""
GONE_S = 5.0 + 10.0
"""Five seconds, and the drain before them."""
SMALL = (
    "algo.num_envs=8", "algo.batch_size=32", "algo.updates_per_step=2",
    "algo.learning_starts=64", "algo.hidden_size=16", "env.episode_ticks=20",
)  # fmt: skip

Demo = subprocess.Popen[bytes]
Start = Callable[[Path, int], Demo]


class Over(NamedTuple):
    """How a run has ended. ``share``: of the time that is promised, how much it took."""

    summary: dict[str, Any]
    share: float


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Demo] = []

    def begin(folder: Path, iterations: int) -> Demo:
        command = [sys.executable, "-m", "unilab_metrics", "demo", "--headless", *SMALL]
        folder.mkdir()
        with (folder / "output").open("wb") as output:
            demo = subprocess.Popen(
                [*command, "--iterations", str(iterations)],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        started.append(demo)
        return demo

    yield begin
    kill_processes()
    for demo in started:
        demo.wait()


def run_of(folder: Path) -> Path:
    """The run, once it has had its tenth iteration."""
    until(lambda: list(folder.glob("logs/sac/cart_reach/*_numpy")), 60.0)
    (run_dir,) = folder.glob("logs/sac/cart_reach/*_numpy")
    until(lambda: bus_directory(run_dir).is_dir() and len(updates(run_dir)) >= 10, 60.0)
    return run_dir


def in_time(play: Callable[[Path], float], folder: Path) -> bool:
    """Whether an ending takes no longer than is promised."""
    places = (folder / str(n) for n in count())
    return fastest_s(lambda: play(next(places)), 1.0, tries=3) < 1.0


def expect_over(run_dir: Path, since_s: float) -> Over:
    """Nothing stays, and the backend holds what the history does. ``since_s``: a time of day."""
    said_s = summary_s(run_dir, since_s)
    until(lambda: not leftovers())
    gone_s = time.time() - since_s
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
    assert summary["bus"]["ended"] == verified.history.ended
    return Over(summary, max(said_s / SUMMARY_S, gone_s / GONE_S))


def test_a_complete_training(start: Start, tmp_path: Path) -> None:
    def play(folder: Path) -> float:
        demo = start(folder, 40)
        run_dir = run_of(folder)
        assert demo.wait(60) == 0
        over = expect_over(run_dir, time.time())
        assert over.summary["status"] == "completed"
        assert over.summary["completed_iterations"] == 40
        return over.share

    assert in_time(play, tmp_path)


def test_ctrl_c(start: Start, tmp_path: Path) -> None:
    def play(folder: Path) -> float:
        demo = start(folder, 1_000_000)
        run_dir = run_of(folder)
        interrupted_s = time.time()
        os.killpg(demo.pid, signal.SIGINT)
        assert demo.wait(60) == 130
        over = expect_over(run_dir, interrupted_s)
        summary = over.summary
        assert (summary["status"], summary["error"]) == ("failed", "interrupted by SIGTERM")
        assert summary["bus"]["ended"] == "stopped"
        assert "Status         stopped by Ctrl+C" in (folder / "output").read_text()
        return over.share

    assert in_time(play, tmp_path)


@pytest.mark.parametrize("launcher_too", [True, False])
def test_kill_9_of_all_training_processes(launcher_too: bool, start: Start, tmp_path: Path) -> None:
    assert in_time(lambda folder: killed(folder, start, launcher_too=launcher_too), tmp_path)


def killed(folder: Path, start: Start, *, launcher_too: bool) -> float:
    demo = start(folder, 1_000_000)
    run_dir = run_of(folder)
    until(lambda: processes("write"))
    helpers = {process.pid for process in (*processes("aggregate"), *processes("write"))}
    view = {process.pid for process in processes("unilab_sidecar")}
    training = {process.pid for process in processes()} - helpers - view
    assert len(helpers) == 2
    if not launcher_too:
        training.discard(demo.pid)
    killed_s = time.time()
    kill(training)
    assert demo.wait(60) not in {0, 130}
    over = expect_over(run_dir, killed_s)
    assert over.summary["status"] == "failed"
    return over.share


def test_kill_9_of_one_learner(start: Start, tmp_path: Path) -> None:
    def play(folder: Path) -> float:
        demo = start(folder, 1_000_000)
        run_dir = run_of(folder)
        learners = {
            process.pid
            for process in processes("unilab_metrics.demo")
            if process.environ().get("RANK") == "1"
        }
        kill(learners)
        assert demo.wait(60) == 128 + signal.SIGKILL
        over = expect_over(run_dir, time.time())
        assert over.summary["status"] == "failed"
        assert "Rank 1 was killed by SIGKILL" in (folder / "output").read_text()
        return over.share

    assert in_time(play, tmp_path)


def kill(pids: set[int]) -> None:
    for pid in pids:
        try:
            psutil.Process(pid).kill()
        except psutil.NoSuchProcess:
            continue
