"""Checkpoints of the networks in the run directory, written by rank 0."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from unilab_metrics.demo.metrics import Metrics
from unilab_metrics.demo.rank import Rank


class HasState(Protocol):
    """An algorithm whose networks can be kept."""

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint holds."""
        ...


class Checkpoints:
    """Writes ``model_<iteration>.pt`` every ``interval`` iterations and says so on the bus."""

    def __init__(self, directory: Path, interval: int, metrics: Metrics) -> None:
        self._directory = directory
        self._interval = interval
        self._metrics = metrics
        self.last: Path | None = None
        """The newest checkpoint."""

    @classmethod
    def of(cls, rank: Rank, interval: int) -> Checkpoints | None:
        """Those of this rank: rank 0 has some, if it knows where."""
        if rank.group.rank != 0 or rank.run_dir is None:
            return None
        return cls(rank.run_dir, interval, rank.metrics)

    def after(self, iteration: int, algorithm: HasState) -> None:
        """Writes one when the iteration is a multiple of the interval."""
        if iteration % self._interval == 0:
            self.write(iteration, algorithm)

    def write(self, iteration: int, algorithm: HasState) -> None:
        """Writes one now, whole or not at all, unless this iteration has one."""
        path = self._directory / f"model_{iteration}.pt"
        if path == self.last:
            return
        partial = path.with_suffix(".partial")
        torch.save({"iteration": iteration, **algorithm.state()}, partial)
        os.replace(partial, path)
        self.last = path
        self._metrics.event(
            "checkpoint", f"checkpoint {path.name}", iteration=iteration, path=str(path)
        )
