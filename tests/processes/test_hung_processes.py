"""Helpers that hang are killed by whoever started them, and by nobody else; nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from case_runs import aggregator_pid, ended, finish, processes, scalars, start
from real_runs import only_run, until
from toy_run import ToyRun, expected, points, wait_for

from unilab_metrics.aggregate.options import BackendProcess
from unilab_metrics.crash_points import POINTS_VARIABLE, TOKENS_VARIABLE
from unilab_metrics.helper_life import Heard
from unilab_metrics.run.processes import start_writer
from unilab_metrics.run.summary import read_summary
from unilab_metrics.run.supervision import Supervisor
from unilab_metrics.storage.lease import is_free, owner_pid

TRAINING = """
import sys, threading, time
import unilab_metrics as um

publisher = um.init(algorithm="ppo", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
is_over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), is_over.set()), daemon=True).start()
iteration = 0
slowest_s = 0.0
while not is_over.is_set():
    began_s = time.monotonic()
    publisher.log({"Loss/value": float(iteration)}, iteration=iteration)
    slowest_s = max(slowest_s, time.monotonic() - began_s)
    iteration += 1
    time.sleep(0.02)
assert publisher.close(), (publisher.errors, publisher.unsent)
print(iteration, slowest_s)
"""


def has_other_aggregator(run_dir: Path, pid: int) -> bool:
    return any(process.pid != pid for process in processes("aggregate"))


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_an_aggregator_that_hangs_and_one_that_is_stopped_are_replaced(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.mkdir()
    environment = {
        POINTS_VARIABLE: "aggregator.committed@20:hang",
        TOKENS_VARIABLE: str(tokens),
    }
    training = start(TRAINING, tmp_path / "logs", **environment)
    until(lambda: list(tokens.iterdir()))
    run_dir = only_run(tmp_path / "logs")
    hung = aggregator_pid(run_dir)
    began_s = time.monotonic()
    until(lambda: has_other_aggregator(run_dir, hung), 60.0)
    assert time.monotonic() - began_s > 10.0, "shorter pauses are not for us to judge"
    stopped = aggregator_pid(run_dir, other_than=hung)
    os.kill(stopped, signal.SIGSTOP)
    until(lambda: not psutil.pid_exists(stopped), 60.0)
    aggregator_pid(run_dir, other_than=stopped)
    count, slowest_s = finish(training, say="\n").split()
    ended(run_dir)
    assert scalars(run_dir)["Loss/value"] == [(n, float(n)) for n in range(int(count))]
    assert float(slowest_s) < 5.0
    summary = read_summary(run_dir)
    assert summary is not None
    assert summary["bus"]["restarts"] == {
        "aggregator": {
            "count": 2,
            "by": "rank 0",
            "reason": "did not answer for 15 s and was killed",
        }
    }


@pytest.mark.slow
def test_an_aggregator_that_is_stopped_for_ten_seconds_is_left_alone(tmp_path: Path) -> None:
    training = start(TRAINING, tmp_path)
    until(lambda: processes("write"))
    run_dir = only_run(tmp_path)
    pid = aggregator_pid(run_dir)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(10.0)
    os.kill(pid, signal.SIGCONT)
    count, _ = finish(training, say="\n").split()
    ended(run_dir)
    assert len(scalars(run_dir)["Loss/value"]) == int(count)
    summary = read_summary(run_dir)
    assert summary is not None
    assert summary["bus"]["restarts"] == {}


@pytest.fixture
def run(run_dir: Path, short_path: Path) -> Iterator[ToyRun]:
    made = ToyRun(run_dir, short_path)
    made.start_aggregator()
    yield made
    made.close()


def supervised_writer(run: ToyRun, hung_after_s: int) -> Supervisor:
    lease = run.bus / "writer-tensorboard.lease"
    return Supervisor(
        lambda: start_writer(run.run_dir, "tensorboard"),
        is_taken=lambda: not is_free(lease),
        holder=lambda: owner_pid(lease),
        hung_after_s=hung_after_s,
    )


class Watch:
    """Calls a supervisor with what the writer has said, as the aggregator does."""

    def __init__(self, run: ToyRun, supervisor: BackendProcess) -> None:
        self._run = run
        self._supervisor = supervisor
        self._words = 0
        self._heard: Heard | None = None

    def __call__(self) -> None:
        self._run.hear()
        self._run.announce()
        if len(self._run.statuses) > self._words:
            self._words = len(self._run.statuses)
            self._heard = Heard(self._run.statuses[-1].pid, time.monotonic())
        self._supervisor(hurry=False, heard=self._heard)

    def until(self, condition: Callable[[], object]) -> None:
        wait_for(condition, self)


@pytest.mark.slow
def test_a_writer_that_is_stopped_for_too_long_is_replaced_and_writes_all_once(run: ToyRun) -> None:
    supervisor = supervised_writer(run, 8)
    watch = Watch(run, supervisor)
    run.updates(5)
    watch.until(lambda: len(points(run)) == 5)
    first = supervisor.process
    assert first is not None
    first.send_signal(signal.SIGSTOP)
    run.updates(5)
    watch.until(lambda: supervisor.starts == 2)
    (trouble,) = supervisor.take_troubles()
    assert trouble.reason == "did not answer for 8 s and was killed"
    watch.until(lambda: len(points(run)) == 10)
    run.stop_aggregator()
    assert supervisor.process is not None
    supervisor.process.wait(30)
    assert points(run) == expected(10)


@pytest.mark.slow
def test_a_writer_of_somebody_else_is_never_killed(run: ToyRun) -> None:
    command = [sys.executable, "-m", "unilab_metrics", "write", str(run.run_dir)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT) as other:
        try:
            wait_for(lambda: not is_free(run.bus / "writer-tensorboard.lease"))
            other.send_signal(signal.SIGSTOP)
            supervisor = supervised_writer(run, 1)
            end_s = time.monotonic() + 3.0
            while time.monotonic() < end_s:
                supervisor(heard=Heard(other.pid, 0.0))
                time.sleep(0.1)
            assert other.poll() is None
            assert supervisor.starts == 0
        finally:
            other.kill()
