"""A training on two nodes that torchrun starts again when a rank fails.

``python elastic_rank.py SETTINGS``: as ``fault_rank`` has them, ``rank`` being that of the node.
Becomes the torchrun agent of its node, which runs this file once more as the rank. Rank 1
fails once when it is told to, or is killed when it has logged what it has not sent. Each attempt has
ledgers of its own.

A restart gets a store of its own (``TORCH_DISABLE_SHARE_RDZV_TCP_STORE``): in one that outlives
the attempts, gloo may read the addresses of the last attempt's processes.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec
from fault_helper import hurry_restarts
from fault_rank import STOP_LEARNERS, Ledger, Settings, value_of

import unilab_metrics as um
from unilab_metrics.publish.shipper import Shipper

FAIL = "fail"
KILL = "kill"
UNSENT = 10
ADDRESS_VARIABLE = "ELASTIC_TEST_ADDRESS"


def run_agent(settings: Settings) -> None:
    """torchrun in this process's place."""
    is_first = settings.rank == 0
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2"]
    command += ["--nproc-per-node", "1", "--max-restarts", "2", "--monitor-interval", "0.2"]
    command += ["--rdzv-backend", "c10d", "--rdzv-id", "elastic"]
    command += ["--rdzv-endpoint", f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"]
    # By name, torchrun would ask a name server whether it is the first node.
    command += ["--rdzv-conf", f"is_host={is_first}", "--local-addr", os.environ[ADDRESS_VARIABLE]]
    environment = {**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    os.execve(sys.executable, [*command, __file__, sys.argv[1]], environment)


def main() -> int:
    settings = msgspec.json.decode(sys.argv[1], type=Settings)
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        run_agent(settings)
    hurry_restarts()
    folder = Path(settings.folder)
    name, ledger = _open_ledger(folder, f"learner-{os.environ['RANK']}")
    publisher = um.init(
        algorithm="ppo", task="Toy", sim_backend="numpy", run_dir=settings.run_dir or None
    )
    assert "torch" not in sys.modules
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    # The largest of all ranks' clocks, and whether one of them has been told to stop.
    agreed = torch.tensor([(time.monotonic_ns() - settings.start_mono_ns) // 10**6, 0])
    dist.all_reduce(agreed, op=dist.ReduceOp.MAX)
    iteration = int(agreed[0])
    while not agreed[1]:
        before = time.monotonic_ns()
        value = value_of(publisher.rank, iteration)
        publisher.log(
            {"Loss/value": value, f"Ledger/{name}": float(iteration)}, iteration=iteration
        )
        ledger.write("iteration", iteration, value, before, time.monotonic_ns())
        iteration += 1
        if publisher.rank == 1 and (folder / KILL).exists():
            (folder / KILL).unlink()
            be_killed(publisher, ledger, name, iteration)
        if publisher.rank == 1 and (folder / FAIL).exists():
            (folder / FAIL).unlink()
            return 3
        time.sleep(settings.interval_ns / 1e9)
        agreed[1] = int((folder / STOP_LEARNERS).exists())
        dist.all_reduce(agreed, op=dist.ReduceOp.MAX)
    dist.destroy_process_group()
    ledger.write("closed", int(publisher.close(settings.close_timeout_s)))
    print(publisher.dropped, publisher.errors, flush=True)
    return 0


def be_killed(publisher: um.Publisher, ledger: Ledger, name: str, first: int) -> None:
    """Iterations that only this rank has logged, and not sent."""
    Shipper._send = lambda *_: None  # type: ignore[method-assign]
    time.sleep(0.2)
    for iteration in range(first, first + UNSENT):
        value = value_of(publisher.rank, iteration)
        before = time.monotonic_ns()
        publisher.log(
            {"Loss/value": value, f"Ledger/{name}": float(iteration)}, iteration=iteration
        )
        ledger.write("iteration", iteration, value, before, time.monotonic_ns())
    os.kill(os.getpid(), signal.SIGKILL)


def _open_ledger(folder: Path, place: str) -> tuple[str, Ledger]:
    for attempt in range(1, 9):
        name = f"{place}-{attempt}-1"
        with suppress(FileExistsError):
            return name, Ledger(folder / f"{name}.ledger")
    raise AssertionError(f"{place} was started too often")


if __name__ == "__main__":
    sys.exit(main())
