"""The process group of the ranks: joined from the launcher's variables, gloo over CPU."""

# torch leaves many of its own parameters unannotated:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import os
from datetime import timedelta

import torch
import torch.distributed as dist

COLLECTIVE_TIMEOUT_S = 600.0
"""A rank that is stopped for longer fails the others; a dead one fails them at once."""


def rank_from_environment() -> tuple[int, int]:
    """Global rank and world size as torchrun and our launcher set them; alone without."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


class ProcessGroup:
    """All ranks of the training; with one rank every operation is local."""

    def __init__(self, rank: int, world_size: int) -> None:
        self.rank = rank
        self.world_size = world_size

    def join(self) -> None:
        """Meets the other ranks; returns when all are there."""
        if self.world_size > 1:
            dist.init_process_group(
                "gloo",
                rank=self.rank,
                world_size=self.world_size,
                timeout=timedelta(seconds=COLLECTIVE_TIMEOUT_S),
            )

    def sum(self, *values: float) -> list[float]:
        """The sums over the ranks; all must call."""
        tensor = torch.tensor(values, dtype=torch.float64)
        if self.world_size > 1:
            dist.all_reduce(tensor)
        return tensor.tolist()

    def leave(self) -> None:
        """Ends the group; without effect if it was never joined."""
        if dist.is_initialized():
            dist.destroy_process_group()
