"""BR-01: a backend that takes long to start holds up nobody, and loses nothing."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import pytest
from case_runs import ended, finish, held_python, processes, scalars, start
from real_runs import fastest_s, only_run, until

RANK = """
import json, os, sys, time
import unilab_metrics as um

def asleep_s():
    # Without the time that this thread ran, or would have run with a processor of its own.
    ran_ns, queued_ns, _ = map(int, open("/proc/thread-self/schedstat").read().split())
    return time.monotonic() - (ran_ns + queued_ns) / 1e9

began_s = asleep_s()
publisher = um.init(algorithm="ppo", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
init_s = asleep_s() - began_s
import torch.distributed as dist

# By a file: a port that is free now may be taken before rank 0 listens there.
dist.init_process_group(
    "gloo", init_method=f"file://{sys.argv[2]}", rank=int(os.environ["RANK"]), world_size=2
)
dist.barrier()
print(json.dumps({"init_s": init_s}), flush=True)
sys.stdin.readline()
for iteration in range(20):
    publisher.log({"Loss/value": float(iteration)}, iteration=iteration)
print("logged", flush=True)
dist.destroy_process_group()
assert publisher.close(90), (publisher.errors, publisher.unsent)
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_slow_backend_start_delays_neither_init_nor_the_first_barrier(tmp_path: Path) -> None:
    places = (tmp_path / f"launch-{n}" for n in count())
    # What a busy machine adds to `init` is mostly no sleep, but for the wait for a thread that is
    # queued.
    assert fastest_s(lambda: init_s(next(places)), 0.5) < 0.5


def init_s(folder: Path) -> float:
    """For how long `init` slept, on the rank where that was longer."""
    logs, go = folder / "logs", folder / "go"
    folder.mkdir()
    environment = {
        "UNILAB_METRICS_PYTHON": str(held_python(folder, "write", until=go)),
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29501",
        "OMP_NUM_THREADS": "1",
    }
    ranks = [start(RANK, logs, folder / "gloo", RANK=str(n), **environment) for n in (0, 1)]
    slept_s: list[float] = []
    for rank in ranks:
        assert rank.stdout is not None
        # The backend does not start before both are through, however long that takes.
        slept_s.append(json.loads(rank.stdout.readline())["init_s"])
    # From here on nothing is logged before the slow start has begun.
    until(lambda: processes("write"), 30.0)
    run_dir = only_run(logs)
    for rank in ranks:
        assert rank.stdin is not None
        rank.stdin.write("go\n")
        rank.stdin.flush()
    for rank in ranks:
        assert rank.stdout is not None
        assert rank.stdout.readline() == "logged\n"
    assert list(run_dir.glob("*tfevents*")) == [], "the backend has not started yet"
    go.touch()
    for rank in ranks:
        finish(rank)
    ended(run_dir)
    expected = [(iteration, float(iteration)) for iteration in range(20)]
    assert scalars(run_dir)["Loss/value"] == expected
    return max(slept_s)
