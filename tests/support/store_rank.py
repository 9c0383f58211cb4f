"""A rank whose node does not have the run directory, and which has torch.distributed; and the
collector that it starts.

``python store_rank.py SETTINGS``: as ``fault_rank`` has them. ``run_dir`` may be empty: then
nothing says which run it is. ``torch.distributed`` is initialised after ``init()``, from
``MASTER_ADDR`` and ``MASTER_PORT``. Without a ``role`` of its own a rank beyond 0 starts a
collector, which is told no more than what a child inherits.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
from fault_helper import hurry_restarts
from fault_rank import Ledger, Settings, collect, learn

import unilab_metrics as um


def main() -> int:
    settings = msgspec.json.decode(sys.argv[1], type=Settings)
    hurry_restarts()
    ledger = Ledger(Path(settings.folder) / f"{settings.name}.ledger")
    if settings.role == "collector":
        publisher = um.connect()
        collect(settings, publisher, ledger)
        ledger.write("closed", int(publisher.close(settings.close_timeout_s)))
        print(publisher.dropped, publisher.errors, flush=True)
        return 0
    publisher = um.init(
        algorithm="ppo",
        task="Toy",
        sim_backend="numpy",
        run_dir=settings.run_dir or None,
        rank=settings.rank,
        world_size=settings.world_size,
    )
    assert "torch" not in sys.modules
    import torch.distributed as dist

    dist.init_process_group("gloo", rank=settings.rank, world_size=settings.world_size)
    child = _start_collector(settings) if settings.rank else None
    learn(settings, publisher, ledger)
    dist.destroy_process_group()
    ledger.write("closed", int(publisher.close(settings.close_timeout_s)))
    print(publisher.dropped, publisher.errors, flush=True)
    return child.wait(60) if child is not None else 0


def _start_collector(settings: Settings) -> subprocess.Popen[bytes]:
    name = settings.name.replace("learner", "collector")
    own = msgspec.structs.replace(settings, role="collector", name=name)
    environment = {k: v for k, v in os.environ.items() if k not in {"RANK", "WORLD_SIZE"}}
    return subprocess.Popen(
        [sys.executable, __file__, msgspec.json.encode(own).decode()], env=environment
    )


if __name__ == "__main__":
    sys.exit(main())
