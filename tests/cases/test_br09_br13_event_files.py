"""BR-09 and BR-13: no record is lost to another file of the same second, or to a buffer."""

from __future__ import annotations

import os
import signal
import struct
import time
from pathlib import Path

import pytest
from case_runs import aggregator_pid, ended, processes, run, scalars, start
from real_runs import only_run, until

from unilab_metrics.subscribe.history import HistoryRecord
from unilab_metrics.write.backends.tensorboard import TensorBoardBackend
from unilab_schema.identity import RunInfo
from unilab_schema.updates import AttemptOpened, Update

SAME_SECOND_NS = 1_700_000_000_500_000_000


def record(step: int) -> HistoryRecord:
    entry = Update(1, step, None, 0, 0, 0.0, 1, 1, 0, struct.pack("<d", step))
    return HistoryRecord(step + 1, entry, ("Loss/value",))


def open_backend(run_dir: Path) -> TensorBoardBackend:
    backend = TensorBoardBackend(run_dir, clock_unix_ns=lambda: SAME_SECOND_NS)
    backend.open()
    backend.write([HistoryRecord(1, AttemptOpened(1, 1, RunInfo("ppo")), ())])
    return backend


def write(backend: TensorBoardBackend, *steps: int) -> None:
    backend.write([record(step) for step in steps])
    backend.flush()


def steps_in(run_dir: Path) -> list[int]:
    return sorted(step for step, _ in scalars(run_dir)["Loss/value"])


def test_two_writers_of_one_second_keep_each_others_records(run_dir: Path) -> None:
    first = open_backend(run_dir)
    write(first, 1)
    second = open_backend(run_dir)
    write(second, 2)
    write(first, 3)
    for backend in (first, second):
        backend.close()
    assert len(list(run_dir.glob("*tfevents*"))) == 2
    assert steps_in(run_dir) == [1, 2, 3]


def test_a_writer_that_reopens_in_the_second_of_its_close_keeps_everything(run_dir: Path) -> None:
    first = open_backend(run_dir)
    write(first, *range(1, 21))
    first.close()
    second = open_backend(run_dir)
    write(second, 21)
    second.close()
    assert steps_in(run_dir) == list(range(1, 22))


ONE_MORE = """
import sys
import unilab_metrics as um

publisher = um.init(algorithm="ppo", task="Toy", run_dir=sys.argv[1])
for iteration in range(int(sys.argv[2]), int(sys.argv[3])):
    publisher.log({"Loss/value": float(iteration)}, iteration=iteration)
assert publisher.close(90), publisher.errors
"""


def test_a_run_that_goes_on_in_its_directory_loses_nothing(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    run(ONE_MORE, run_dir, "0", "20")
    run(ONE_MORE, run_dir, "20", "21")
    ended(run_dir)
    assert scalars(run_dir)["Loss/value"] == [(n, float(n)) for n in range(21)]


FLUSH_S = 1.5

LEARNER = """
import sys
import unilab_metrics as um

publisher = um.init(algorithm="ppo", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
sys.stdin.readline()
for iteration in range(50):
    publisher.log({"Loss/value": iteration / 3}, iteration=iteration)
print("logged", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_points_older_than_the_flush_interval_survive_a_kill_of_learner_and_writer(
    tmp_path: Path,
) -> None:
    learner = start(LEARNER, tmp_path)
    # The writer is at work; how long helpers take to start is not the case here.
    until(lambda: list(tmp_path.glob("*/*/*/bus/writer-tensorboard.lease")), 30.0)
    run_dir = only_run(tmp_path)
    assert learner.stdin is not None
    assert learner.stdout is not None
    learner.stdin.write("go\n")
    learner.stdin.flush()
    assert learner.stdout.readline() == "logged\n"
    time.sleep(FLUSH_S)
    # The aggregator stands still meanwhile, or it would start another writer that repairs.
    aggregator = aggregator_pid(run_dir)
    os.kill(aggregator, signal.SIGSTOP)
    try:
        (writer,) = processes("write")
        for pid in (learner.pid, writer.pid):
            os.kill(pid, signal.SIGKILL)
        learner.communicate()
        points = scalars(run_dir)["Loss/value"]
    finally:
        os.kill(aggregator, signal.SIGCONT)
    assert len(points) == 50
    assert [step for step, _ in points] == list(range(50))
    ended(run_dir)
    assert len(scalars(run_dir)["Loss/value"]) == 50
