"""A rank of a training of one iteration, whose node may not have the run directory.

``python short_rank.py SETTINGS``: as ``fault_rank`` has them. ``torch.distributed`` is initialised
after ``init()``, with a store that outlives the training, as torchrun's does; the training lets go
of it before it closes, when each rank has been to it once. ``role`` may be ``store``: that store.
SLOW_VARIABLE: how long each visit to it takes, in seconds.
"""

from __future__ import annotations

import datetime as dt
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
from fault_helper import hurry_restarts
from fault_rank import Ledger, Settings, value_of

import unilab_metrics as um
from unilab_metrics.run import torch_store

SLOW_VARIABLE = "SHORT_TEST_SLOW_S"


def main() -> int:
    settings = msgspec.json.decode(sys.argv[1], type=Settings)
    if settings.role == "store":
        return keep_store()
    hurry_restarts()
    has_begun = slow_down(float(os.environ.get(SLOW_VARIABLE, "0")))
    ledger = Ledger(Path(settings.folder) / f"{settings.name}.ledger")
    publisher = um.init(
        algorithm="ppo",
        task="Toy",
        sim_backend="numpy",
        run_dir=settings.run_dir or None,
        rank=settings.rank,
        world_size=settings.world_size,
    )
    import torch.distributed as dist

    dist.init_process_group("gloo", rank=settings.rank, world_size=settings.world_size)
    assert has_begun.wait(60)
    value = value_of(settings.rank, 0)
    before = time.monotonic_ns()
    publisher.log({"Loss/value": value, f"Ledger/{settings.name}": 0.0}, iteration=0)
    ledger.write("iteration", 0, value, before, time.monotonic_ns())
    dist.barrier()
    dist.destroy_process_group()
    ledger.write("closed", int(publisher.close(settings.close_timeout_s)))
    print(publisher.dropped, publisher.errors, flush=True)
    return 0


def slow_down(visit_s: float) -> threading.Event:
    """Each visit takes that much longer; set when the first one has begun."""
    has_begun = threading.Event()
    really_open = torch_store._open

    def slowly(store: Any) -> torch_store.Store:
        opened = really_open(store)
        has_begun.set()
        time.sleep(visit_s)
        return opened

    torch_store._open = slowly
    return has_begun


def keep_store() -> int:
    import torch.distributed as dist

    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    limit = dt.timedelta(seconds=60)
    tcp_store: Any = getattr(dist, "TCPStore")  # noqa: B009
    store = tcp_store(address, port, None, True, limit, wait_for_workers=False)
    print(store, flush=True)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    sys.exit(main())
