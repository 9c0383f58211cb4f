"""The part of a publisher that the demo uses, and how its processes get one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

import unilab_metrics as um
from unilab_metrics.config import RUN_VARIABLE
from unilab_metrics.demo.job_options import JobOptions

TASK = "cart_reach"
SIM_BACKEND = "numpy"


class Episodes(Protocol):
    """Statistics over the last finished episodes of a collector."""

    def step(
        self,
        rewards: NDArray[Any],
        dones: NDArray[np.bool_],
        timeouts: NDArray[np.bool_] | None = None,
    ) -> None:
        """One tick of all environments."""
        ...


class Metrics(Protocol):
    """What :class:`unilab_metrics.Publisher` offers; see there for the semantics."""

    @property
    def episodes(self) -> Episodes:
        """Fed by a collector at each tick."""
        ...

    def log(
        self,
        values: Mapping[str, Any],
        *,
        iteration: int | None = None,
        env_steps: int | None = None,
    ) -> None:
        """Completes an iteration of a learner, or sends a collector's report."""
        ...

    def start_training(self, env_steps: int = 0) -> None:
        """The warm-up is over."""
        ...

    def start_iteration(self) -> None:
        """Top of the learner's loop."""
        ...

    def phase(self, name: str) -> AbstractContextManager[object]:
        """Times a phase; exclusive phases pause the one around them."""
        ...

    def add_phase_ns(self, name: str, duration_ns: int) -> None:
        """Adds a duration that was measured elsewhere."""
        ...

    def tick(self) -> None:
        """A collector's vector tick is done."""
        ...

    def gauges(self, *, inference: Mapping[str, float]) -> None:
        """Where the inference requests are."""
        ...

    def event(
        self, kind: str, text: str = "", *, iteration: int | None = None, **data: Any
    ) -> None:
        """Status lines and checkpoints."""
        ...

    def set_summary(self, **fields: Any) -> None:
        """Fields of ``run_summary.json``."""
        ...

    def close(self, timeout_s: float = 30.0, status: str = "completed") -> bool:
        """Delivers the rest."""
        ...


OpenLearner = Callable[[JobOptions], tuple[Metrics, Path | None]]
"""Returns the learner's metrics and the run directory, ``None`` where that is not known."""
OpenCollector = Callable[[JobOptions], Metrics]
"""Called inside the collector's process; must be importable by name."""


def open_learner(options: JobOptions) -> tuple[Metrics, Path | None]:
    """Joins the run of this launch, or opens it on rank 0. Returns at once."""
    training = options.training
    publisher = um.init(
        algorithm=options.algorithm,
        task=TASK,
        sim_backend=SIM_BACKEND,
        run_dir=training.log_dir,
        log_root=training.log_root,
        strict=True,
        max_iterations=options.algo.max_iterations,
        config=msgspec.to_builtins(options),
        backends=(training.logger,),
        log_interval=training.log_interval,
    )
    run_dir = os.environ.get(RUN_VARIABLE)
    return publisher, Path(run_dir) if run_dir else None


def open_collector(options: JobOptions) -> Metrics:
    """Connects the collector's own publisher to the run of its learner. Returns at once."""
    del options
    return um.connect()
