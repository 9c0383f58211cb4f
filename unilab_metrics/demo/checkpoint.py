"""Checkpoints of the networks in the run directory, written by rank 0."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from unilab_metrics.demo.metrics import Metrics
from unilab_metrics.demo.sac import Sac


class Checkpoints:
    """Writes ``model_<iteration>.pt`` every ``interval`` iterations and says so on the bus."""

    def __init__(self, directory: Path, interval: int, metrics: Metrics) -> None:
        self._directory = directory
        self._interval = interval
        self._metrics = metrics
        self.last: Path | None = None
        """The newest checkpoint."""

    def after(self, iteration: int, sac: Sac) -> None:
        """Writes one when the iteration is a multiple of the interval."""
        if iteration % self._interval == 0:
            self.write(iteration, sac)

    def write(self, iteration: int, sac: Sac) -> None:
        """Writes one now, whole or not at all, unless this iteration has one."""
        path = self._directory / f"model_{iteration}.pt"
        if path == self.last:
            return
        partial = path.with_suffix(".partial")
        torch.save({"iteration": iteration, **sac.state()}, partial)
        os.replace(partial, path)
        self.last = path
        self._metrics.event(
            "checkpoint", f"checkpoint {path.name}", iteration=iteration, path=str(path)
        )
