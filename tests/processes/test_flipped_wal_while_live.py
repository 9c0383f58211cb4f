"""A bit of the wal flips while the aggregator stands, it is killed, and the training goes on: the
next one asks for what lay there, so that nothing is missing and nothing is refused."""

from __future__ import annotations

import os
import signal
import subprocess
from functools import partial
from pathlib import Path

import psutil
import pytest
from case_runs import aggregator_pid, ended, finish, start, updates
from cut_off_run import newest
from killed_run import first_batch_with, newest_batches_of
from real_runs import until

from unilab_metrics.transport.rendezvous import bus_directory

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

RANK = """
import sys, time, warnings
from pathlib import Path
import unilab_metrics as um

warnings.simplefilter("ignore")
run_dir, rank, world = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
flipped, last, ours = Path(sys.argv[4]), Path(sys.argv[5]), Path(f"{sys.argv[5]}-{rank}")
publisher = um.init(
    algorithm="ppo", task="Toy", sim_backend="numpy", run_dir=run_dir, rank=rank, world_size=world
)
iteration, end = 0, None
while not Path(run_dir, "bus", "bus.json").exists():  # one batch for each iteration
    time.sleep(0.01)
with publisher:
    while iteration != end:
        publisher.log({f"Loss/aux_{rank}": float(iteration)}, iteration=iteration)
        iteration += 1
        time.sleep(0.01)
        if rank == 0 and end is None and flipped.exists():
            end = iteration + 200
            ours.write_text(str(end))
            ours.rename(last)
        while rank > 0 and end is None:  # all that rank 0 logs meanwhile is open
            time.sleep(0.01)
            end = int(last.read_text()) if last.exists() else None
print(iteration)
"""


def flip_behind_its_back(run_dir: Path, world: int) -> None:
    """An iteration that only rank 0 has logged, or where it is alone the layout of all."""
    pid = aggregator_pid(run_dir)
    os.kill(pid, signal.SIGSTOP)
    until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    path = newest(bus_directory(run_dir), "wal")
    record = newest_batches_of(0, path)[-4] if world > 1 else first_batch_with(b"Loss/aux_0", path)
    data = bytearray(path.read_bytes())
    data[record.start + 40] ^= 1
    path.write_bytes(data)
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("world", [1, 2], ids=["the layouts", "open iterations"])
def test_no_iteration_is_lost_or_refused(world: int, run_dir: Path, tmp_path: Path) -> None:
    flipped, last = tmp_path / "flipped", tmp_path / "last"
    trainings: list[subprocess.Popen[str]] = []
    for rank in range(world):
        trainings.append(start(RANK, run_dir, str(rank), str(world), flipped, last))
        aggregator_pid(run_dir)
        path = newest(bus_directory(run_dir), "wal")
        # Sources have their numbers in the order in which they come.
        until(partial(newest_batches_of, rank, path), 60.0)
    until(lambda: len(newest_batches_of(0, path)) > 30, 60.0)
    flip_behind_its_back(run_dir, world)
    flipped.touch()
    logged = [int(finish(training)) for training in trainings]
    verified = ended(run_dir)
    assert verified.history.ended == "completed"
    assert (verified.lost_frames, verified.dropped_calls) == (0, {})
    found = updates(run_dir)
    assert logged == [len(found)] * world
    assert [update.iteration for update, _ in found] == list(range(len(found)))
    for update, values in found:
        for rank in range(world):
            assert values[f"Loss/aux_{rank}"] == update.iteration
