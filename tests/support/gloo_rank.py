"""One rank of a torch.distributed job that publishes over the real bus.

Run as a script: ``gloo_rank.py RUN_DIR OUT_DIR ITERATIONS MODE``; rank and world size come
from the environment. Each iteration's values are reduced with ``all_reduce`` too, and rank 0
writes what that gave to ``OUT_DIR/reference.json``.

Modes: ``plain``; ``collector`` (each rank also plays its collector in a child process that
reports 5 times an iteration).
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

import unilab_metrics as um

TAGS = ("x/a", "x/b", "Perf/total_fps", "Train/ring_available_slots")
SUMMED = frozenset({"Perf/total_fps", "Train/ring_available_slots"})
PARTIAL_TAG = "x/odd_ranks_only"
REPORTS = 5


def values_of(rank: int, k: int) -> dict[str, float]:
    """The values that a rank logs for an iteration; the same in every run."""
    rng = np.random.default_rng(1000 * rank + k)
    scale = 10.0 ** float(rng.integers(-3, 4))
    values = {tag: float(rng.standard_normal()) * scale for tag in TAGS}
    if rank % 2:
        values[PARTIAL_TAG] = float(rng.standard_normal())
    return values


def reference(rank: int, world: int, k: int) -> dict[str, float]:
    """What all_reduce makes of the same values, in float64."""
    mine = values_of(rank, k)
    row = [mine.get(tag, 0.0) for tag in (*TAGS, PARTIAL_TAG)]
    count = [1.0 if tag in mine else 0.0 for tag in (*TAGS, PARTIAL_TAG)]
    both = torch.tensor(row + count, dtype=torch.float64)
    dist.all_reduce(both)
    total, counts = both.numpy().reshape(2, -1)
    return {
        tag: float(total[i] if tag in SUMMED else total[i] / counts[i])
        for i, tag in enumerate((*TAGS, PARTIAL_TAG))
    }


def collect(rank: int, ticks: Connection) -> None:
    """A collector: five reports for each tick that the learner asks for."""
    publisher = um.connect(role="collector", rank=rank)
    while (k := ticks.recv()) is not None:
        for n in range(REPORTS):
            publisher.log({"reward/term": 100.0 * k + 10.0 * rank + n})
        ticks.send(k)
    publisher.close(20.0)


def main() -> None:
    """Log, reduce, compare later."""
    run_dir, out_dir, iterations, mode = (
        Path(sys.argv[1]),
        Path(sys.argv[2]),
        int(sys.argv[3]),
        sys.argv[4],
    )
    # By a file: a port that is free now may be taken before rank 0 listens there.
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group(
        "gloo", init_method=f"file://{out_dir}/gloo", rank=rank, world_size=world
    )
    publisher = um.init(run_dir=run_dir, algorithm="oracle", task="oracle", backends=())
    ticks = child = None
    if mode == "collector":
        context = multiprocessing.get_context("spawn")
        ticks, theirs = context.Pipe()
        child = context.Process(target=collect, args=(rank, theirs))
        child.start()
        theirs.close()
    references: list[dict[str, float]] = []
    for k in range(iterations):
        if ticks is not None:
            ticks.send(k)
            ticks.recv()
        if rank == world - 1 and k % 7 == 3:
            time.sleep(0.05)  # a rank that lags behind the others
        publisher.log(values_of(rank, k), iteration=k)
        references.append(reference(rank, world, k))
    if ticks is not None and child is not None:
        ticks.send(None)
        child.join(30)
    if rank == 0:
        (out_dir / "reference.json").write_text(json.dumps(references))
    delivered = publisher.close(30.0)
    (out_dir / f"closed-{rank}.json").write_text(json.dumps(delivered))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
