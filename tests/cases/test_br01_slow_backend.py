"""BR-01: a backend that takes long to start holds up nobody, and loses nothing."""

from __future__ import annotations

import json
import socket
from pathlib import Path

from case_runs import delayed_python, ended, finish, processes, scalars, start
from real_runs import only_run, until

START_S = 5.0

RANK = """
import json, sys, time
import unilab_metrics as um

def asleep_s():
    # Without the time that this thread ran, or would have run with a processor of its own.
    ran_ns, queued_ns, _ = map(int, open("/proc/thread-self/schedstat").read().split())
    return time.monotonic() - (ran_ns + queued_ns) / 1e9

began_s = asleep_s()
publisher = um.init(algorithm="ppo", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
init_s = asleep_s() - began_s
import torch.distributed as dist

began_s = time.monotonic()
dist.init_process_group("gloo")
dist.barrier()
print(json.dumps({"init_s": init_s, "barrier_s": time.monotonic() - began_s}), flush=True)
sys.stdin.readline()
for iteration in range(20):
    publisher.log({"Loss/value": float(iteration)}, iteration=iteration)
print("logged", flush=True)
dist.destroy_process_group()
assert publisher.close(), (publisher.errors, publisher.unsent)
"""


def test_a_slow_backend_start_delays_neither_init_nor_the_first_barrier(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        "UNILAB_METRICS_PYTHON": str(delayed_python(tmp_path, "write", START_S)),
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
    }
    ranks = [start(RANK, logs, RANK=str(rank), **environment) for rank in (0, 1)]
    for rank in ranks:
        assert rank.stdout is not None
        times = json.loads(rank.stdout.readline())
        # It waits for nobody: what a busy machine adds is no sleep.
        assert times["init_s"] < 0.5
        assert times["barrier_s"] < START_S
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
    for rank in ranks:
        finish(rank)
    ended(run_dir)
    expected = [(iteration, float(iteration)) for iteration in range(20)]
    assert scalars(run_dir)["Loss/value"] == expected
