"""Signals as clusters and shells send them: to every process of the job at once, or to some."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from case_runs import aggregator_pid, ended, kill_processes, leftovers, processes, scalars
from real_runs import summary_s, until
from steered_ranks import iterations, told

from unilab_metrics.run.summary import read_summary

TAG = "Loss/value"
SUMMARY_S = 10.0
"""From the death of the training to ``run_summary.json``."""
TRAINING = """
import os, signal, sys, time
import unilab_metrics as um

def log(first, last):
    for iteration in range(first, last + 1):
        publisher.log({"Loss/value": float(publisher.rank)}, iteration=iteration)

def end_slowly(*_):
    time.sleep(3.0)
    log(10, 14)
    sys.exit(7)

if sys.argv[2] == "slow":
    signal.signal(signal.SIGTERM, end_slowly)
publisher = um.init(algorithm="ppo", task="Toy", run_dir=sys.argv[1])
log(0, 9)
os.write(1, b"ready\\n")
while True:
    time.sleep(0.01)
"""
RANKS = """
import os, subprocess, sys
ranks = int(sys.argv[1])
children = [
    subprocess.Popen(sys.argv[2:], env=os.environ | {"RANK": str(r), "WORLD_SIZE": str(ranks)})
    for r in range(ranks)
]
sys.exit(max(child.wait() for child in children))
"""


@contextlib.contextmanager
def begin(run_dir: Path, how: str = "plain") -> Iterator[subprocess.Popen[str]]:
    """A training that goes on until somebody ends it, at the latest a failure of its test."""
    with subprocess.Popen(
        [sys.executable, "-c", TRAINING, str(run_dir), how],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as training:
        try:
            yield training
        except BaseException:
            training.kill()
            raise


@pytest.fixture
def run_dir(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "run"
    kill_processes()


def writes(training: subprocess.Popen[str], run_dir: Path) -> None:
    """Once it trains and its helpers are at work, with all of that on the disk."""
    assert training.stdout is not None
    assert training.stdout.readline() == "ready\n"
    until(lambda: len(iterations(run_dir)) == 10 and len(scalars(run_dir).get(TAG, [])) == 10)


def summary_within(run_dir: Path, since_s: float, seconds: float = SUMMARY_S) -> dict[str, Any]:
    """The run's summary; there within some seconds since a time of day."""
    assert summary_s(run_dir, since_s) < seconds
    summary = read_summary(run_dir)
    assert summary is not None
    assert summary["metric_schema_version"] == 1
    return summary


def points(run_dir: Path, count: int) -> None:
    assert scalars(run_dir)[TAG] == [(k, 0.0) for k in range(count)]


@pytest.mark.slow
def test_sigterm_to_every_process_of_a_learner_that_needs_three_seconds(run_dir: Path) -> None:
    """BR-65: scancel."""
    with begin(run_dir, "slow") as training:
        writes(training, run_dir)
        until(lambda: len(processes()) == 3)
        everybody = processes()
        for process in everybody:
            process.terminate()
        training.communicate(timeout=40)
    assert training.returncode == 7
    ended(run_dir)
    points(run_dir, 15)
    summary = read_summary(run_dir)
    assert summary is not None
    assert summary["bus"]["backends"] == {"tensorboard": summary["bus"]["updates"]}


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        signal.SIGKILL,
        *(
            pytest.param(number, marks=pytest.mark.slow)
            for number in (signal.SIGINT, signal.SIGHUP, signal.SIGSEGV)
        ),
    ],
)
def test_a_signal_to_the_training_only(number: signal.Signals, run_dir: Path) -> None:
    with begin(run_dir) as training:
        writes(training, run_dir)
        sent_s = time.time()
        training.send_signal(number)
        _, errors = training.communicate(timeout=40)
        # Python itself ends by Ctrl+C as if the signal had not been caught.
        assert training.returncode == -number
        assert ("KeyboardInterrupt" in errors) is (number == signal.SIGINT)
        summary = summary_within(run_dir, sent_s)
    assert summary["status"] == "failed"
    if number != signal.SIGINT:
        # Of a zombie the system tells; our test has waited for it, so only newer systems do.
        unnamed = "ended without close(): learner of rank 0"
        assert summary["error"].startswith((unnamed, f"stopped by {number.name}"))
        assert told(run_dir, "lost") != []
    ended(run_dir)
    points(run_dir, 10)


@pytest.mark.slow
def test_sigterm_and_then_sigkill_a_second_later(run_dir: Path) -> None:
    with begin(run_dir, "slow") as training:
        writes(training, run_dir)
        everybody = processes()
        for process in everybody:
            process.terminate()
        time.sleep(1.0)
        for process in everybody:
            process.kill()
        training.communicate()
    assert training.returncode == -signal.SIGKILL
    # What was there a flush interval before is on the disk, and the rest in the journal.
    points(run_dir, 10)
    assert [update.iteration for update in iterations(run_dir)] == list(range(10))
    command = [sys.executable, "-m", "unilab_metrics", "aggregate", str(run_dir)]
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    ended(run_dir)
    points(run_dir, 10)


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_kill_9_of_all_trainers_leaves_a_summary_within_ten_seconds(
    ranks: int, run_dir: Path
) -> None:
    """Also of the parent that would have waited for them: nobody is left but the helpers."""
    command = [sys.executable, "-c", RANKS, str(ranks), sys.executable, "-c", TRAINING]
    with subprocess.Popen(
        [*command, str(run_dir), "plain"], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as parent:
        try:
            for _ in range(ranks):
                assert parent.stdout is not None
                assert parent.stdout.readline() == "ready\n"
            until(lambda: len(iterations(run_dir)) == 10 and list(run_dir.glob("events.*")))
        finally:
            killed_s = time.time()
            os.killpg(parent.pid, signal.SIGKILL)
    summary = summary_within(run_dir, killed_s)
    assert summary["status"] == "failed"
    assert summary["completed_iterations"] == 10
    assert [source["state"] for source in summary["bus"]["sources"]] == ["lost"] * ranks
    ended(run_dir)
    assert [value for _, value in scalars(run_dir)[TAG]] == [(ranks - 1) / 2] * 10


@pytest.mark.slow
def test_a_helper_that_is_told_to_end_while_training_goes_on_comes_back(run_dir: Path) -> None:
    with begin(run_dir, "slow") as training:
        writes(training, run_dir)
        (writer,) = processes("write")

        def is_gone() -> bool:
            # Twice: at once. Of several that come together it hears one.
            with contextlib.suppress(psutil.NoSuchProcess):
                writer.terminate()
            return not writer.is_running()

        until(is_gone)
        until(lambda: [p.pid for p in processes("write")] not in ([], [writer.pid]))
        training.terminate()
        training.communicate(timeout=40)
    assert training.returncode == 7
    ended(run_dir)
    points(run_dir, 15)


@pytest.mark.slow
def test_an_aggregator_that_is_told_to_end_drains_and_is_started_again(run_dir: Path) -> None:
    with begin(run_dir, "slow") as training:
        writes(training, run_dir)
        first = aggregator_pid(run_dir)
        os.kill(first, signal.SIGINT)
        os.kill(first, signal.SIGTERM)
        time.sleep(2.0)
        assert psutil.pid_exists(first), "it drains while the training lives"
        until(lambda: aggregator_pid(run_dir) != first, 90.0)
        training.terminate()
        training.communicate(timeout=40)
    assert training.returncode == 7
    ended(run_dir)
    points(run_dir, 15)


@pytest.mark.slow
def test_nothing_is_left_a_minute_after_everything_died(run_dir: Path) -> None:
    with begin(run_dir) as training:
        writes(training, run_dir)
        training.kill()
        training.communicate()
    until(lambda: leftovers() == [], 60.0)
    ended(run_dir)
