"""Rank 0 and the aggregator die together, or rank 0 before there is one: the run is completed
by whoever is left, and otherwise by whoever comes next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from case_runs import aggregator_pid, ended, held_python, kill_processes, processes, scalars
from real_runs import only_run, run, until
from steered_ranks import SteeredRank, iterations, steered, told

from unilab_metrics.run.summary import read_summary

TAG = "Loss/value"


def summary_of(run_dir: Path) -> dict[str, Any]:
    until(lambda: read_summary(run_dir) is not None)
    summary = read_summary(run_dir)
    assert summary is not None
    return summary


@pytest.mark.slow
def test_a_rank_that_survives_starts_the_aggregator_and_the_run_is_completed(
    tmp_path: Path,
) -> None:
    run_dir = tmp_path / "run"
    with steered(run_dir, 2) as (zero, one):
        for rank in (zero, one):
            rank.log(0, 9)
        until(lambda: len(iterations(run_dir)) == 10)
        killed = aggregator_pid(run_dir)
        os.kill(zero.pid, signal.SIGKILL)
        os.kill(killed, signal.SIGKILL)
        one.log(10)
        assert aggregator_pid(run_dir, other_than=killed) != killed
        until(lambda: len(iterations(run_dir)) == 11)
        assert one.end() == "True"
        ended(run_dir)
    summary = summary_of(run_dir)
    assert summary["status"] == "failed"
    assert summary["error"] == "ended without close(): learner of rank 0 (SIGKILL)"
    assert scalars(run_dir)[TAG] == [*((k, 0.5) for k in range(10)), (10, 1.0)]


@pytest.mark.slow
def test_what_nobody_survived_is_completed_by_the_next_attempt(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with steered(run_dir, 2) as ranks:
        for rank in ranks:
            rank.log(0, 9)
        until(lambda: len(iterations(run_dir)) >= 1)
        for rank in ranks:
            rank.log(10, 19)
        kill_processes()
    assert read_summary(run_dir) is None
    with steered(run_dir, 2) as ranks:
        for rank in ranks:
            rank.log(20, 24)
        # Rank 1 would wait for no more than 10 s for an aggregator that rank 0 must start.
        until(lambda: len(iterations(run_dir)) == 25, 60.0)
        for rank in ranks:
            rank.tell("close 30")
        for rank in reversed(ranks):
            assert rank.process.communicate(timeout=60)[0].startswith("close True")
    ended(run_dir)
    assert summary_of(run_dir)["status"] == "completed"
    assert scalars(run_dir)[TAG] == [(k, 0.5) for k in range(25)]


BRIEF = """
import os, signal, sys
import unilab_metrics as um
publisher = um.init(algorithm="ppo", task="Toy", run_dir=sys.argv[1])
publisher.log({"Loss/value": float(publisher.rank)}, iteration=0)
if len(sys.argv) > 2:
    print(publisher.close(30))
else:
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_rank_that_is_killed_at_once_is_explained_and_its_frame_counts(tmp_path: Path) -> None:
    """It dies before there is an aggregator that could hear of it."""
    run_dir, go = tmp_path / "run", tmp_path / "go"
    held = str(held_python(tmp_path, "aggregate", until=go))
    command = [sys.executable, "-c", BRIEF, str(run_dir)]
    environment = os.environ | {"RANK": "1", "WORLD_SIZE": "2"}
    with SteeredRank(run_dir, 0, 2, UNILAB_METRICS_PYTHON=held) as zero:
        # One that was over before rank 0 was started may be of an earlier start.
        zero.ready()
        with subprocess.Popen(command, env=environment) as one:
            # Nobody knows the signal any more once the process has been waited for.
            os.waitid(os.P_PID, one.pid, os.WEXITED | os.WNOWAIT)
            go.touch()
            zero.log(0, 2)
            until(lambda: len(iterations(run_dir)) == 3)
            zero.end()
            ended(run_dir)
    assert one.returncode == -signal.SIGKILL
    assert [(u.ranks_reported, u.ranks_expected) for u in iterations(run_dir)] == [
        (2, 2),
        (1, 2),
        (1, 2),
    ]
    (text,) = told(run_dir, "lost")
    assert text.startswith(f"learner of rank 1 (pid {one.pid} on ")
    assert text.endswith(") was killed by SIGKILL")
    assert summary_of(run_dir)["status"] == "completed"


@pytest.mark.slow
def test_a_rank_0_that_is_killed_at_once_leaves_its_frames_to_the_next_attempt(
    tmp_path: Path,
) -> None:
    run_dir = tmp_path / "run"
    killed = subprocess.run([sys.executable, "-c", BRIEF, str(run_dir)], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    until(lambda: processes() == [])
    assert run(BRIEF, str(run_dir), "close") == "True\n"
    ended(run_dir)
    assert [(u.attempt, u.iteration) for u in iterations(run_dir)] == [(1, 0), (2, 0)]
    assert len(told(run_dir, "lost")) == 1


LAUNCHER = """
import subprocess, sys
from pathlib import Path
from unilab_metrics.run.launching.launcher import run_owning_terminal

def start(console):
    return [
        subprocess.Popen([sys.executable, "-c", sys.argv[2], sys.argv[1]], stdout=console,
                         stdin=subprocess.DEVNULL, stderr=console, start_new_session=True)
    ]

run_dir = Path(sys.argv[1])
run_dir.mkdir(parents=True)
sys.exit(run_owning_terminal(start, run_dir, headless=True))
"""
DIES_WITH_IT = """
import os, signal, sys, time
import unilab_metrics as um
from unilab_metrics.storage.lease import owner_pid
from unilab_metrics.transport.rendezvous import aggregator_lease
from pathlib import Path
run_dir = Path(sys.argv[1])
publisher = um.init(algorithm="ppo", task="Toy", run_dir=run_dir)
for iteration in range(10):
    publisher.log({"Loss/value": 0.0}, iteration=iteration)
while owner_pid(aggregator_lease(run_dir)) is None:
    time.sleep(0.02)
os.kill(owner_pid(aggregator_lease(run_dir)), signal.SIGKILL)
os.kill(os.getpid(), signal.SIGSEGV)
"""


def test_our_launcher_completes_the_run_and_says_what_killed_its_rank(tmp_path: Path) -> None:
    run_dir = tmp_path / "logs" / "ppo" / "toy" / "run"
    launched = subprocess.run(
        [sys.executable, "-c", LAUNCHER, str(run_dir), DIES_WITH_IT],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert launched.returncode == 128 + signal.SIGSEGV, launched.stderr
    assert "Rank 0 was killed by SIGSEGV" in launched.stdout
    assert "Status         failed: ended without close(): learner of rank 0 (SIGSEGV)" in (
        launched.stdout
    )
    assert only_run(tmp_path / "logs") == run_dir
    ended(run_dir)
    assert scalars(run_dir)[TAG] == [(k, 0.0) for k in range(10)]
    assert summary_of(run_dir)["completed_iterations"] == 10
