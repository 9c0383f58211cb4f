"""The learner's replay: a ring of transitions on its device, and the layout of a row."""

# torch leaves many of its own parameters unannotated:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unilab_metrics.demo.sac import Batch
from unilab_metrics.demo.transitions import TransitionLayout


@dataclass
class ReplayRing:
    """The newest ``capacity`` rows. Owned by the thread that appends and gathers."""

    capacity: int
    layout: TransitionLayout

    def __post_init__(self) -> None:
        self._rows = torch.zeros((self.capacity, self.layout.width))
        self._appended = 0

    @property
    def size(self) -> int:
        """Rows that can be drawn."""
        return min(self._appended, self.capacity)

    def append(self, rows: NDArray[np.float32]) -> None:
        """Copies host rows to the device, over the oldest ones."""
        source = torch.from_numpy(rows)
        start = self._appended % self.capacity
        first = min(len(source), self.capacity - start)
        self._rows[start : start + first].copy_(source[:first])
        self._rows[: len(source) - first].copy_(source[first:])
        self._appended += len(source)

    def gather(self, out: Tensor, generator: torch.Generator) -> None:
        """Fills ``out`` with rows drawn uniformly, with replacement."""
        chosen = torch.randint(self.size, (len(out),), generator=generator)
        torch.index_select(self._rows, 0, chosen, out=out)


def as_batch(rows: Tensor, layout: TransitionLayout) -> Batch:
    """Columns of gathered rows, as views."""
    observations, actions, rewards, next_observations, terminated = rows.split(
        layout.column_sizes, dim=1
    )
    return Batch(
        observations, actions, rewards.squeeze(1), next_observations, terminated.squeeze(1)
    )
