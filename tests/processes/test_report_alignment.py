"""Reports land in the iterations that their stamps say, whatever happens to the aggregator."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from case_runs import aggregator_pid, ended, finish, held_python, start, updates
from real_runs import only_run, until

from unilab_metrics.storage.lease import is_free
from unilab_metrics.transport.rendezvous import aggregator_lease

# The collector makes five reports for each iteration of its learner, and none besides.
TRAINING = """
import os, sys, time
import unilab_metrics as um

logs, iterations, pause_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
ticks, their_answers = os.pipe()
answers, their_ticks = os.pipe()
if os.fork() == 0:
    publisher = um.connect()
    while k := os.read(ticks, 1)[0]:
        for n in range(5):
            publisher.log({"reward/term": 100.0 * k + n}, env_steps=5 * k + n)
        os.write(their_ticks, b"x")
    publisher.close(float(sys.argv[4]))
    os._exit(0)
publisher = um.init(algorithm="sac", task="Toy", sim_backend="numpy", log_root=logs)
for k in range(1, iterations + 1):
    os.write(their_answers, bytes([k]))
    os.read(answers, 1)
    publisher.log({"Loss/actor": float(k)}, iteration=k, env_steps=10 * k)
    time.sleep(pause_s)
print("logged", flush=True)
if sys.stdin.read():
    os.write(their_answers, b"\\0")
    os.wait()
    publisher.close(float(sys.argv[4]))
"""


def check(run_dir: Path, iterations: int) -> None:
    found = updates(run_dir)
    assert [update.iteration for update, _ in found] == list(range(1, iterations + 1))
    for update, values in found:
        expected = {"reward/term": 100.0 * update.iteration + 2.0}
        assert {tag: values.get(tag) for tag in expected} == expected, update.iteration


def begin(logs: Path, iterations: int, pause_s: float, close_s: float, python: Path | str = ""):
    return start(
        TRAINING,
        logs,
        str(iterations),
        str(pause_s),
        str(close_s),
        UNILAB_METRICS_PYTHON=str(python),
    )


# A collector that ends waits for 10 s for an aggregator that its learner must start, so none is told
# to end before there is one.


@pytest.mark.slow
def test_an_aggregator_that_starts_late(tmp_path: Path) -> None:
    start_it = tmp_path / "start"
    python = held_python(tmp_path, "aggregate", until=start_it)
    training = begin(tmp_path / "logs", 100, 0.01, 30.0, python)
    assert training.stdout is not None
    assert training.stdout.readline() == "logged\n"
    start_it.touch()
    run_dir = only_run(tmp_path / "logs")
    aggregator_pid(run_dir)
    finish(training, say="close")
    ended(run_dir)
    check(run_dir, 100)


@pytest.mark.slow
def test_an_aggregator_that_is_killed_on_the_way(tmp_path: Path) -> None:
    training = begin(tmp_path / "logs", 200, 0.02, 30.0)
    until(lambda: list((tmp_path / "logs").glob("*/*/*")))
    run_dir = only_run(tmp_path / "logs")
    pid = aggregator_pid(run_dir)
    until(lambda: len(updates(run_dir)) > 20)
    os.kill(pid, signal.SIGKILL)
    aggregator_pid(run_dir, other_than=pid)
    finish(training, say="close")
    ended(run_dir)
    check(run_dir, 200)


@pytest.mark.parametrize("how", ["kill", pytest.param("close", marks=pytest.mark.slow)])
def test_an_aggregator_that_comes_when_everybody_is_gone(how: str, tmp_path: Path) -> None:
    training = begin(tmp_path / "logs", 50, 0.0, 0.2, tmp_path / "no-python")
    if how == "close":
        finish(training, say="close", is_undelivered=True)
    else:
        assert training.stdout is not None
        assert training.stdout.readline() == "logged\n"
        os.killpg(training.pid, signal.SIGKILL)
        training.communicate()
    run_dir = only_run(tmp_path / "logs")
    command = [sys.executable, "-m", "unilab_metrics", "aggregate", str(run_dir)]
    subprocess.run(command, check=True, timeout=60, cwd=tmp_path)
    ended(run_dir)
    check(run_dir, 50)


@pytest.mark.slow
def test_a_second_attempt_that_no_aggregator_ever_saw(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    for n in (1, 2):
        python = sys.executable if n == 1 else tmp_path / "no-python"
        training = start(
            TRAINING, tmp_path / "logs", "20", "0", "0.2" if n == 2 else "30",
            UNILAB_METRICS_RUN=str(run_dir), UNILAB_METRICS_PYTHON=str(python),
        )  # fmt: skip
        if n == 1:
            aggregator_pid(run_dir)
        finish(training, say="close", is_undelivered=n == 2)
        until(lambda: is_free(aggregator_lease(run_dir)))
    assert len(updates(run_dir)) == 20
    command = [sys.executable, "-m", "unilab_metrics", "aggregate", str(run_dir)]
    subprocess.run(command, check=True, timeout=60, cwd=tmp_path)
    ended(run_dir)
    found = updates(run_dir)
    assert [update.attempt for update, _ in found] == [1] * 20 + [2] * 20
    for update, values in found:
        assert values["reward/term"] == 100.0 * update.iteration + 2.0
