"""Losses that the review of the design feared, each with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from case_runs import (
    aggregator_pid,
    await_end,
    delayed_python,
    ended,
    finish,
    held_python,
    start,
    updates,
)
from real_runs import only_run, until

from unilab_metrics.run.summary import read_summary
from unilab_metrics.run.verifying.verify import verify_run
from unilab_metrics.storage.lease import is_free
from unilab_metrics.storage.places import spool_root
from unilab_metrics.storage.records import scan
from unilab_metrics.storage.segments import list_segments
from unilab_metrics.transport.rendezvous import aggregator_lease, bus_directory

# Logs on each line of its input as many iterations as the line says.
TRAINING = """
import os, pathlib, sys, time
import unilab_metrics as um
from unilab_metrics.storage import lease
from unilab_metrics.storage.spool_reader import SpoolReader

publisher = um.init(
    algorithm="sac", task="Toy", sim_backend="numpy", log_root=sys.argv[1],
    backends=sys.argv[2].split() if len(sys.argv) > 2 else ["tensorboard"],
)
k = 0
for line in sys.stdin:
    if line == "lease\\n":
        path = pathlib.Path(publisher.identity.lease_path)
        said = lease.is_free(path), lease.take(path), lease.owner_pid(path) == os.getpid()
        print(*said, len(list(SpoolReader(path.parent).batches())) > 0, flush=True)
        continue
    for _ in range(int(line)):
        k += 1
        publisher.log({"Loss/actor": float(k)}, iteration=k)
    print(k, flush=True)
publisher.close(30.0)
"""


def tell(training: subprocess.Popen[str], line: object) -> str:
    assert training.stdin is not None
    assert training.stdout is not None
    training.stdin.write(f"{line}\n")
    training.stdin.flush()
    return training.stdout.readline()


def iterations(run_dir: Path) -> list[int]:
    return [update.iteration for update, _ in updates(run_dir)]


def cut_to(directory: Path, prefix: str, share: float) -> None:
    path = list_segments(directory, prefix)[-1]
    with path.open("r+b") as file:
        file.truncate(int(path.stat().st_size * share))


@pytest.mark.slow
def test_what_a_power_loss_takes_from_the_journal_comes_again_from_the_spool(
    tmp_path: Path,
) -> None:
    # The respawned aggregator waits until the disk has been changed. More is cut off than a power
    # loss may take, so no backend may hold it already.
    is_free_to_start = tmp_path / "start"
    is_free_to_start.touch()
    python = held_python(tmp_path, "aggregate", until=is_free_to_start)
    training = start(TRAINING, tmp_path / "logs", "", UNILAB_METRICS_PYTHON=str(python))
    tell(training, 100)
    run_dir = only_run(tmp_path / "logs")
    until(lambda: iterations(run_dir)[-1:] == [100])
    pid = aggregator_pid(run_dir)
    is_free_to_start.unlink()
    os.kill(pid, signal.SIGKILL)
    await_end(pid)
    cut_to(bus_directory(run_dir), "wal", 0.5)
    cut_to(bus_directory(run_dir), "history", 0.7)
    is_free_to_start.touch()
    tell(training, 20)
    finish(training)
    until(lambda: read_summary(run_dir) is not None and is_free(aggregator_lease(run_dir)))
    assert iterations(run_dir) == list(range(1, 121))
    summary = read_summary(run_dir)
    assert summary is not None
    assert summary["bus"]["lost_frames"] == 0


@pytest.mark.slow
def test_a_flipped_byte_in_a_spool_costs_that_frame_and_is_counted(tmp_path: Path) -> None:
    is_free_to_start = tmp_path / "start"
    python = held_python(tmp_path, "aggregate", until=is_free_to_start)
    training = start(TRAINING, tmp_path / "logs", UNILAB_METRICS_PYTHON=str(python))
    tell(training, 50)
    (segment,) = spool_root().rglob("spool-000001-000001")
    data = segment.read_bytes()
    record = next(r for r in scan(data).records if r.sequence == 20)
    with segment.open("r+b") as file:
        file.seek(record.end - 1)
        file.write(bytes([data[record.end - 1] ^ 0x10]))
    is_free_to_start.touch()
    finish(training)
    run_dir = only_run(tmp_path / "logs")
    until(lambda: read_summary(run_dir) is not None and is_free(aggregator_lease(run_dir)))
    assert verify_run(run_dir).lost_frames == 1
    assert len(iterations(run_dir)) == 49


def test_a_process_that_looks_at_its_own_lease_and_spool_does_not_free_it(
    tmp_path: Path,
) -> None:
    training = start(TRAINING, tmp_path)
    tell(training, 20)
    (path,) = spool_root().rglob("lease")
    for _ in range(3):
        assert tell(training, "lease") == "False None True True\n"
        assert not is_free(path)
    tell(training, 20)
    finish(training)
    ended(only_run(tmp_path))
    assert iterations(only_run(tmp_path)) == list(range(1, 41))


FREEING = """
import os, sys, time
import unilab_metrics as um

publisher = um.init(algorithm="sac", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
for k in range(1, 301):
    publisher.log({"Loss/actor": float(k)}, iteration=k)
    if k == 50:
        # What a library does that looks at every file below a folder: it frees the lock.
        os.close(os.open(publisher.identity.lease_path, os.O_RDONLY))
    time.sleep(0.01)
publisher.close()
"""


@pytest.mark.slow
def test_a_lease_that_foreign_code_has_freed_makes_nobody_dead_who_lives(tmp_path: Path) -> None:
    training = start(FREEING, tmp_path)
    output, errors = training.communicate(timeout=60)
    assert (training.returncode, output, errors) == (0, "", "")
    run_dir = only_run(tmp_path)
    ended(run_dir)
    assert iterations(run_dir) == list(range(1, 301))


KILLED = """
import os, signal, sys, time
import unilab_metrics as um

publisher = um.init(algorithm="sac", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
for k in range(1, 31):
    publisher.log({"Loss/actor": float(k)}, iteration=k)
    time.sleep(0.005)
until = time.monotonic() + 0.001
while time.monotonic() < until:
    pass
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_rank_killed_a_millisecond_after_log_is_adopted_before_its_iteration_is_sealed(
    tmp_path: Path,
) -> None:
    training = start(KILLED, tmp_path)
    training.communicate(timeout=60)
    assert training.returncode == -signal.SIGKILL
    run_dir = only_run(tmp_path)
    ended(run_dir)
    found = updates(run_dir)
    assert [update.iteration for update, _ in found] == list(range(1, 31))
    assert all(values["Loss/actor"] == update.iteration for update, values in found)


REPORTING = """
import os, sys, time
import unilab_metrics as um

ticks, their_answers = os.pipe()
answers, their_ticks = os.pipe()
if os.fork() == 0:
    publisher = um.connect()
    while k := os.read(ticks, 1)[0]:
        publisher.log({"reward/term": 100.0 * k}, env_steps=5 * k)
        os.write(their_ticks, b"x")
    publisher.close(30.0)
    os._exit(0)
publisher = um.init(algorithm="sac", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
for k in range(1, 121):
    os.write(their_answers, bytes([k]))
    os.read(answers, 1)
    publisher.log({"Loss/actor": float(k)}, iteration=k)
    time.sleep(0.03)
sys.stdin.readline()
os.write(their_answers, b"\\0")
os.wait()
publisher.close(30.0)
"""


@pytest.mark.slow
def test_reports_of_a_three_second_outage_land_in_their_iterations(tmp_path: Path) -> None:
    python = delayed_python(tmp_path, "aggregate", 0.0)
    training = start(REPORTING, tmp_path / "logs", UNILAB_METRICS_PYTHON=str(python))
    until(lambda: list((tmp_path / "logs").glob("*/*/*")))
    run_dir = only_run(tmp_path / "logs")
    until(lambda: len(updates(run_dir)) > 5)
    python.write_text(f'#!/bin/sh\nsleep 3\nexec "{sys.executable}" "$@"\n')
    pid = aggregator_pid(run_dir)
    os.kill(pid, signal.SIGKILL)
    # A collector that ends waits for 10 s for an aggregator that its learner must start.
    aggregator_pid(run_dir, other_than=pid)
    finish(training, say="\n")
    ended(run_dir)
    found = updates(run_dir)
    assert [update.iteration for update, _ in found] == list(range(1, 121))
    wrong = [u.iteration for u, values in found if values["reward/term"] != 100.0 * u.iteration]
    assert wrong == []
