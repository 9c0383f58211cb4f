"""The actor and the twin critics as pure functions of their weights.

Weights are views of one flat buffer and so are their gradients, which makes gradient
averaging one collective, the optimiser one pass, and the target network one interpolation.
"""

# torch leaves many of its own parameters unannotated:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

LOG_STD_MIN = -5.0
LOG_STD_MAX = 1.0
LOG_TWO_PI = math.log(2.0 * math.pi)

Weights = Sequence[Tensor]
"""weight, bias, weight, bias, ... of an MLP; stacked (critics, in, out) for critics."""


class FlatWeights:
    """Leaf tensors that are views of ``values``, with gradients that are views of ``gradients``.

    Both may be slices of larger buffers; ``values`` is filled with the initial weights.
    """

    def __init__(self, initial: Weights, values: Tensor, gradients: Tensor) -> None:
        self.values = values.copy_(torch.cat([tensor.reshape(-1) for tensor in initial]))
        self.gradients = gradients
        self.weights: list[Tensor] = []
        self._shapes = [tensor.shape for tensor in initial]
        for weight, gradient in zip(self._split(self.values), self._split(gradients), strict=True):
            weight.requires_grad_()
            weight.grad = gradient
            self.weights.append(weight)

    def frozen(self) -> list[Tensor]:
        """The same weights as constants: a gradient passes through, not into them."""
        return [weight.detach() for weight in self.weights]

    def copy(self) -> tuple[Tensor, list[Tensor]]:
        """An independent flat buffer and the weights in it, without gradients."""
        values = self.values.clone()
        return values, self._split(values)

    def _split(self, flat: Tensor) -> list[Tensor]:
        sizes = [shape.numel() for shape in self._shapes]
        pieces = flat.split(sizes)
        return [piece.view(shape) for piece, shape in zip(pieces, self._shapes, strict=True)]


def initial_mlp(
    sizes: Sequence[int], generator: torch.Generator, copies: int | None = None
) -> list[Tensor]:
    """Uniform fan-in weights; ``copies`` stacks that many independent networks."""
    stack = () if copies is None else (copies,)
    weights: list[Tensor] = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        bound = 1.0 / math.sqrt(fan_in)
        bias_shape = (fan_out,) if copies is None else (copies, 1, fan_out)
        weights += [
            (torch.rand(shape, generator=generator) * 2.0 - 1.0) * bound
            for shape in ((*stack, fan_in, fan_out), bias_shape)
        ]
    return weights


def mlp(inputs: Tensor, weights: Weights) -> Tensor:
    """ReLU between the layers; stacked weights give stacked outputs."""
    multiply = torch.addmm if weights[0].dim() == 2 else torch.baddbmm
    hidden = inputs
    for index in range(0, len(weights), 2):
        hidden = multiply(weights[index + 1], hidden, weights[index])
        if index + 2 < len(weights):
            hidden = functional.relu(hidden)
    return hidden


def policy(observations: Tensor, weights: Weights) -> tuple[Tensor, Tensor]:
    """Mean and logarithm of the standard deviation of the Gaussian before the tanh."""
    mean, log_std = mlp(observations, weights).chunk(2, dim=-1)
    return mean, log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)


def sample(mean: Tensor, log_std: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Squashed actions in (-1, 1) and their log-probabilities, summed over the action."""
    noise = torch.randn(mean.shape, generator=generator)
    raw = mean + noise * log_std.exp()
    log_prob = -0.5 * (noise.square() + LOG_TWO_PI) - log_std
    # log(1 - tanh(raw)^2), in the form that does not overflow
    correction = 2.0 * (math.log(2.0) - raw - functional.softplus(-2.0 * raw))
    return raw.tanh(), (log_prob - correction).sum(dim=-1)


def q_values(observations: Tensor, actions: Tensor, weights: Weights) -> Tensor:
    """Shape (critics, batch)."""
    inputs = torch.cat([observations, actions], dim=-1)
    stacked = inputs.expand(weights[0].shape[0], *inputs.shape)
    return mlp(stacked, weights).squeeze(-1)
