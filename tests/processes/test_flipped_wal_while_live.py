"""A bit of the wal flips while the aggregator stands, it is killed, and the training goes on: the
next one asks for what lay there, so that nothing is missing and nothing is refused."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from case_runs import aggregator_pid, ended, finish, start, updates
from cut_off_run import newest
from killed_run import first_batch_with, newest_batches_of
from real_runs import until

from unilab_metrics.transport.rendezvous import bus_directory

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

ITERATIONS = 250
RANK = """
import sys, time, warnings
import unilab_metrics as um

warnings.simplefilter("ignore")
run_dir, rank, world = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
publisher = um.init(
    algorithm="ppo", task="Toy", sim_backend="numpy", run_dir=run_dir, rank=rank, world_size=world
)
with publisher:
    for iteration in range(int(sys.argv[4])):
        publisher.log({f"Loss/aux_{rank}": float(iteration)}, iteration=iteration)
        if rank == world - 1 > 0 and iteration == 0:
            time.sleep(1.5)  # all that the others log meanwhile is open
        time.sleep(0.01)
"""


def flip_behind_its_back(run_dir: Path, world: int) -> None:
    pid = aggregator_pid(run_dir)
    os.kill(pid, signal.SIGSTOP)
    path = newest(bus_directory(run_dir), "wal")
    record = newest_batches_of(0, path)[-4] if world > 1 else first_batch_with(b"Loss/aux_0", path)
    data = bytearray(path.read_bytes())
    data[record.start + 40] ^= 1
    path.write_bytes(data)
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("world", [1, 2], ids=["the layouts", "open iterations"])
def test_no_iteration_is_lost_or_refused(world: int, run_dir: Path) -> None:
    trainings = [
        start(RANK, run_dir, str(rank), str(world), str(ITERATIONS)) for rank in range(world)
    ]
    aggregator_pid(run_dir)
    path = newest(bus_directory(run_dir), "wal")
    until(lambda: len(newest_batches_of(0, path)) > 30, 60.0)
    flip_behind_its_back(run_dir, world)
    for training in trainings:
        finish(training)
    verified = ended(run_dir)
    assert verified.history.ended == "completed"
    assert (verified.lost_frames, verified.dropped_calls) == (0, {})
    found = updates(run_dir)
    assert [update.iteration for update, _ in found] == list(range(ITERATIONS))
    for update, values in found:
        for rank in range(world):
            assert values[f"Loss/aux_{rank}"] == update.iteration
