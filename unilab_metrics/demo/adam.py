"""Adam over one flat buffer: a handful of vector operations for all networks together.

``torch.optim`` would import a compiler (a second of start-up), whose modules then keep the
process group alive beyond its end.
"""

from __future__ import annotations

import torch
from torch import Tensor

FIRST_DECAY = 0.9
SECOND_DECAY = 0.999
EPSILON = 1e-8


class Adam:
    """Owns the moments of ``values`` and changes them in place."""

    def __init__(self, values: Tensor, learning_rate: float) -> None:
        self.learning_rate = learning_rate
        self._values = values
        self._first = torch.zeros_like(values)
        self._second = torch.zeros_like(values)
        self._steps = 0

    def step(self, gradients: Tensor) -> None:
        """One update from gradients of the same shape as the values."""
        self._steps += 1
        self._first.lerp_(gradients, 1.0 - FIRST_DECAY)
        self._second.mul_(SECOND_DECAY).addcmul_(gradients, gradients, value=1.0 - SECOND_DECAY)
        scale = (1.0 - SECOND_DECAY**self._steps) ** 0.5
        step_size = self.learning_rate * scale / (1.0 - FIRST_DECAY**self._steps)
        spread = self._second.sqrt().add_(EPSILON * scale)
        self._values.addcdiv_(self._first, spread, value=-step_size)
