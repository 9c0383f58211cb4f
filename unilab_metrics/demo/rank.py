"""One rank of a training from its start to its end, whatever it trains with."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import torch

from unilab_metrics.demo.job_options import JobOptions
from unilab_metrics.demo.metrics import Metrics, OpenLearner
from unilab_metrics.demo.process_group import ProcessGroup, rank_from_environment
from unilab_metrics.demo.stop import StopRequest
from unilab_metrics.errors import ExitCode

SEEDS_PER_RANK = 10
"""Each rank has random streams of its own."""
OTHER_ASKED = "another rank was asked to stop"


class Rank(NamedTuple):
    """What a training gets. ``seed``: the first of ``SEEDS_PER_RANK``, differs between ranks.
    ``run_dir`` is ``None`` where it is not known."""

    group: ProcessGroup
    metrics: Metrics
    run_dir: Path | None
    stop: StopRequest
    seed: int

    def tell(self, text: str) -> None:
        """Says it in the console and on the bus."""
        line = f"rank {self.group.rank}: {text}"
        print(line, flush=True)  # noqa: T201 (goes to console.log)
        self.metrics.event("status", line)


def run_rank(
    options: JobOptions,
    train: Callable[[Rank], None],
    *,
    learner_metrics: OpenLearner,
    statuses: Mapping[type[Exception], str] | None = None,
) -> int:
    """Trains one rank to its end and returns the exit code of its process.

    Rank and world size come from ``RANK`` and ``WORLD_SIZE``. ``statuses``: errors of the
    training that end the run with a status of their own and whose text says all. Takes over
    SIGINT and SIGTERM, so call it from the main thread.
    """
    stop = StopRequest()
    stop.install()
    torch.set_num_threads(1)
    group = ProcessGroup(*rank_from_environment())
    metrics, run_dir = learner_metrics(options)
    seed = options.algo.seed + group.rank * SEEDS_PER_RANK
    rank = Rank(group, metrics, run_dir, stop, seed)
    status, exit_code = "completed", ExitCode.OK
    try:
        train(rank)
        if stop.reason is not None:
            status, exit_code = "stopped", ExitCode.INTERRUPTED
            rank.tell(stop.reason)
            metrics.set_summary(error=stop.reason)
    except BaseException as error:  # noqa: BLE001 (the bus must hear of it)
        status, exit_code = "failed", ExitCode.UNEXPECTED
        known = next((s for kind, s in (statuses or {}).items() if isinstance(error, kind)), None)
        if known is not None:
            status = known
            rank.tell(str(error))
        else:
            traceback.print_exc()
            rank.tell(f"failed: {type(error).__name__}: {error}")
        metrics.set_summary(error_type=type(error).__name__, error=str(error))
    group.leave()
    metrics.close(status=status)
    return exit_code
