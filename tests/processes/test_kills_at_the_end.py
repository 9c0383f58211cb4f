"""Helpers that die while a run ends are started again and end it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from case_runs import aggregator_pid, ended, finish, processes, scalars, start
from real_runs import only_run, until

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
sys.stdin.readline()
assert publisher.close(), (publisher.errors, publisher.unsent)
"""
POINTS = [(iteration, float(iteration)) for iteration in range(50)]


def end_is_in_the_history(run_dir: Path) -> bool:
    with HistoryReader(bus_directory(run_dir)) as reader:
        return any(isinstance(record.entry, RunEnded) for record in reader.poll())


@pytest.mark.slow
def test_aggregator_and_writer_that_die_between_the_end_and_the_last_write(tmp_path: Path) -> None:
    training = start(TRAINING, tmp_path)
    until(lambda: processes("write"), 30.0)
    run_dir = only_run(tmp_path)
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


def test_a_killed_writer_is_started_again_and_writes_everything_once(tmp_path: Path) -> None:
    training = start(TRAINING, tmp_path)
    run_dir = None
    for _ in range(2):
        until(lambda: processes("write"), 30.0)
        run_dir = only_run(tmp_path)
        until(lambda run_dir=run_dir: len(scalars(run_dir).get("Loss/value", [])) == 50, 30.0)
        (writer,) = processes("write")
        os.kill(writer.pid, signal.SIGKILL)
        until(lambda writer=writer: not writer.is_running())
    finish(training, say="\n")
    assert run_dir is not None
    ended(run_dir)
    assert scalars(run_dir) == {"Loss/value": POINTS}


@pytest.mark.slow
def test_a_stuck_writer_does_not_hold_up_the_summary_of_a_killed_training(tmp_path: Path) -> None:
    training = start(TRAINING, tmp_path)
    until(lambda: processes("write"), 30.0)
    run_dir = only_run(tmp_path)
    (writer,) = processes("write")
    os.kill(writer.pid, signal.SIGSTOP)
    training.kill()
    training.communicate()
    until(lambda: read_summary(run_dir) is not None, 10.0)
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_group_of_a_plain_training_loses_nothing(
    number: signal.Signals, tmp_path: Path
) -> None:
    training = start(GROUP, tmp_path)
    assert training.stdout is not None
    assert {training.stdout.readline() for _ in range(2)} == {"training\n", "collecting\n"}
    until(lambda: list(tmp_path.glob("*/*/*/bus/aggregator.lease")), 30.0)
    os.killpg(training.pid, number)
    training.communicate(timeout=15)
    assert training.returncode != 0
    run_dir = only_run(tmp_path)
    ended(run_dir)
    points = scalars(run_dir)
    assert [step for step, _ in points["Loss/actor"]] == list(range(1, 51))
    assert read_summary(run_dir) is not None
