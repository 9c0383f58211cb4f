"""Helpers that die while a run ends are started again and end it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from itertools import count
from pathlib import Path

import pytest
from case_runs import aggregator_pid, ended, finish, processes, scalars, start
from real_runs import fastest_s, only_run, summary_s, until

from unilab_metrics.run.summary import read_summary
from unilab_metrics.subscribe.history import HistoryReader
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_schema.updates import RunEnded

TRAINING = """
import sys
import unilab_metrics as um

publisher = um.init(algorithm="ppo", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
for iteration in range(50):
    publisher.log({"Loss/value": float(iteration)}, iteration=iteration)
print("logged", flush=True)
sys.stdin.readline()
assert publisher.close(), (publisher.errors, publisher.unsent)
"""
POINTS = [(iteration, float(iteration)) for iteration in range(50)]


def begun(logs: Path) -> tuple[subprocess.Popen[str], Path]:
    """A training that has logged all, and its run once there is a writer."""
    training = start(TRAINING, logs)
    assert training.stdout is not None
    assert training.stdout.readline() == "logged\n"
    until(lambda: processes("write"))
    return training, only_run(logs)


def end_is_in_the_history(run_dir: Path) -> bool:
    with HistoryReader(bus_directory(run_dir)) as reader:
        return any(isinstance(record.entry, RunEnded) for record in reader.poll())


@pytest.mark.slow
def test_aggregator_and_writer_that_die_between_the_end_and_the_last_write(tmp_path: Path) -> None:
    training, run_dir = begun(tmp_path)
    pid = aggregator_pid(run_dir)
    (writer,) = processes("write")
    # A writer that stands still keeps the run from being complete.
    os.kill(writer.pid, signal.SIGSTOP)
    assert training.stdin is not None
    training.stdin.write("\n")
    training.stdin.flush()
    until(lambda: end_is_in_the_history(run_dir))
    for victim in (pid, writer.pid):
        os.kill(victim, signal.SIGKILL)
    finish(training)
    ended(run_dir)
    assert scalars(run_dir) == {"Loss/value": POINTS}


@pytest.mark.slow
def test_a_killed_writer_is_started_again_and_writes_everything_once(tmp_path: Path) -> None:
    training, run_dir = begun(tmp_path)
    for _ in range(2):
        until(lambda: processes("write"))
        until(lambda: len(scalars(run_dir).get("Loss/value", [])) == 50)
        (writer,) = processes("write")
        os.kill(writer.pid, signal.SIGKILL)
        until(lambda writer=writer: not writer.is_running())
    finish(training, say="\n")
    ended(run_dir)
    assert scalars(run_dir) == {"Loss/value": POINTS}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_stuck_writer_does_not_hold_up_the_summary_of_a_killed_training(tmp_path: Path) -> None:
    places = (tmp_path / str(n) for n in count())
    assert fastest_s(lambda: with_a_stuck_writer_s(next(places)), 10.0) < 10.0


def with_a_stuck_writer_s(logs: Path) -> float:
    """How long after the kill of the training its run has a summary."""
    training, run_dir = begun(logs)
    (writer,) = processes("write")
    os.kill(writer.pid, signal.SIGSTOP)
    killed_s = time.time()
    training.kill()
    training.communicate()
    took_s = summary_s(run_dir, killed_s)
    summary = read_summary(run_dir)
    assert summary is not None
    assert (summary["status"], summary["metric_schema_version"]) == ("failed", 1)
    assert summary["completed_iterations"] == 50
    os.kill(writer.pid, signal.SIGCONT)
    ended(run_dir)
    assert scalars(run_dir) == {"Loss/value": POINTS}
    summary = read_summary(run_dir)
    assert summary is not None
    assert summary["bus"]["backends"] == {"tensorboard": summary["bus"]["updates"]}
    return took_s


GROUP = """
import multiprocessing, sys, time
import unilab_metrics as um

def collect():
    publisher = um.connect()
    for tick in range(30):
        publisher.log({"reward/term": 1.0}, env_steps=tick)
    print("collecting", flush=True)
    while True:
        time.sleep(1.0)

multiprocessing.get_context("fork").Process(target=collect).start()
publisher = um.init(algorithm="sac", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
for iteration in range(1, 51):
    publisher.log({"Loss/actor": 1.0}, iteration=iteration, env_steps=iteration)
print("training", flush=True)
while True:
    time.sleep(1.0)
"""


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_a_signal_to_the_group_of_a_plain_training_loses_nothing(
    number: signal.Signals, tmp_path: Path
) -> None:
    training = start(GROUP, tmp_path)
    assert training.stdout is not None
    assert {training.stdout.readline() for _ in range(2)} == {"training\n", "collecting\n"}
    until(lambda: list(tmp_path.glob("*/*/*/bus/aggregator.lease")))
    os.killpg(training.pid, number)
    training.communicate(timeout=60)
    assert training.returncode != 0
    run_dir = only_run(tmp_path)
    ended(run_dir)
    points = scalars(run_dir)
    assert [step for step, _ in points["Loss/actor"]] == list(range(1, 51))
    assert read_summary(run_dir) is not None
