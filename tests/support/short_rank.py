"""A rank of a training of one iteration, whose node may not have the run directory.

``python short_rank.py SETTINGS``: as ``fault_rank`` has them. ``torch.distributed`` is initialised
after ``init()``, with a store that outlives the training, as torchrun's does; the training lets go
of it before it closes, when each rank has been to it once. ``role`` may be ``store``: that store.
SLOW_VARIABLE: how long each visit to it takes, in seconds. With COLLECT_VARIABLE rank 1 starts a
collector, which finds the aggregator when its rank has ended.
"""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
from fault_helper import hurry_restarts
from fault_rank import Ledger, Settings, value_of

import unilab_metrics as um
from unilab_metrics.config import STORE_VARIABLE
from unilab_metrics.run.meeting import torch_store
from unilab_metrics.run.meeting.far_ranks import FarRank
from unilab_metrics.transport.rendezvous import ConnectionFile

SLOW_VARIABLE = "SHORT_TEST_SLOW_S"
COLLECT_VARIABLE = "SHORT_TEST_COLLECT"
_BEHIND_S = 1.5


def main() -> int:
    settings = msgspec.json.decode(sys.argv[1], type=Settings)
    if settings.role == "store":
        return keep_store()
    hurry_restarts()
    has_begun = slow_down(float(os.environ.get(SLOW_VARIABLE, "0")))
    ledger = Ledger(Path(settings.folder) / f"{settings.name}.ledger")
    if settings.role == "collector":
        return collect(settings, ledger)
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
    if STORE_VARIABLE not in os.environ:
        assert has_begun.wait(60)
    child = start_collector(settings) if settings.rank and COLLECT_VARIABLE in os.environ else None
    value = value_of(settings.rank, 0)
    before = time.monotonic_ns()
    publisher.log({"Loss/value": value, f"Ledger/{settings.name}": 0.0}, iteration=0)
    ledger.write("iteration", 0, value, before, time.monotonic_ns())
    dist.barrier()
    dist.destroy_process_group()
    ledger.write("closed", int(publisher.close(settings.close_timeout_s)))
    print(publisher.dropped, publisher.errors, flush=True)
    return child.wait(60) if child is not None else 0


def start_collector(settings: Settings) -> subprocess.Popen[str]:
    """Started, and its first frame logged."""
    name = settings.name.replace("learner", "collector")
    own = msgspec.structs.replace(settings, role="collector", name=name)
    environment = {k: v for k, v in os.environ.items() if k not in {"RANK", "WORLD_SIZE"}}
    command = [sys.executable, __file__, msgspec.json.encode(own).decode()]
    child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline().strip() == "logged"
    return child


def collect(settings: Settings, ledger: Ledger) -> int:
    """Points, because reports for an iteration that is sealed are late."""
    really_find = FarRank.find

    def find_late(self: FarRank) -> ConnectionFile | None:
        way = really_find(self)
        if way is None:
            return None
        since_s.append(time.monotonic())
        return way if time.monotonic() - since_s[0] > _BEHIND_S else None

    since_s: list[float] = []
    FarRank.find = find_late
    publisher = um.connect()
    for number in range(1, 4):
        publisher.point(f"Point/{settings.name}", float(number), number)
        ledger.write("point", number)
    print("logged", flush=True)
    ledger.write("closed", int(publisher.close(settings.close_timeout_s)))
    print(publisher.dropped, publisher.errors, file=sys.stderr, flush=True)
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
