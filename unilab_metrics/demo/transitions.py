"""How one transition lies in a row of float32, from the collector to the update."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unilab_metrics.demo.environment import StepResult

Array = NDArray[np.float32]


class TransitionLayout(NamedTuple):
    """Columns: observation, action, reward, next observation, terminated."""

    observation_size: int
    action_size: int

    @property
    def column_sizes(self) -> list[int]:
        """Widths of the columns, in order."""
        return [self.observation_size, self.action_size, 1, self.observation_size, 1]

    @property
    def width(self) -> int:
        """Values per row."""
        return sum(self.column_sizes)


def pack(observations: Array, actions: Array, result: StepResult) -> Array:
    """Rows of one tick. A timeout is no end of the value, so it is not ``terminated``."""
    return np.concatenate(
        [
            observations,
            actions,
            result.rewards[:, None],
            result.final_observations,
            result.terminated[:, None].astype(np.float32),
        ],
        axis=1,
        dtype=np.float32,
    )
