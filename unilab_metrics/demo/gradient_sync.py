"""Averaging one flat gradient buffer over the ranks, and what it costs."""

# torch leaves many of its own parameters unannotated:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import time
from typing import NamedTuple

import torch.distributed as dist
from torch import Tensor


class SyncCost(NamedTuple):
    """What the collectives of an iteration took from this rank."""

    duration_ms: float
    calls: int


class GradientSync:
    """Averages over the default process group; with one rank there is nothing to do."""

    def __init__(self, world_size: int) -> None:
        self._world_size = world_size
        self._duration_ns = 0
        self._calls = 0

    def average(self, gradients: Tensor) -> None:
        """Replaces the buffer by its mean over the ranks; returns when all have called."""
        if self._world_size == 1:
            return
        started = time.perf_counter_ns()
        dist.all_reduce(gradients)
        gradients.div_(self._world_size)
        self._duration_ns += time.perf_counter_ns() - started
        self._calls += 1

    def cost(self) -> SyncCost | None:
        """What has been spent since the last call; ``None`` with one rank."""
        if self._world_size == 1:
            return None
        cost = SyncCost(self._duration_ns / 1e6, self._calls)
        self._duration_ns = self._calls = 0
        return cost
