"""What PPO collects between two updates, and the advantages in it."""

# torch leaves many of its own parameters unannotated:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor


class Samples(NamedTuple):
    """One row per environment and tick. ``means`` and ``stds``: of the policy that acted."""

    observations: Tensor
    actions: Tensor
    log_probs: Tensor
    means: Tensor
    stds: Tensor
    values: Tensor
    advantages: Tensor
    returns: Tensor


class Rollout:
    """A fixed number of ticks of all environments; owned by the learner's main thread."""

    def __init__(self, ticks: int, num_envs: int, observation_size: int, action_size: int) -> None:
        self.ticks = ticks
        shape = (ticks, num_envs)
        self.observations = torch.zeros(*shape, observation_size)
        self.actions = torch.zeros(*shape, action_size)
        self.means = torch.zeros_like(self.actions)
        self.stds = torch.zeros_like(self.actions)
        self.log_probs = torch.zeros(shape)
        self.values = torch.zeros(shape)
        self.rewards = torch.zeros(shape)
        self.dones = torch.zeros(shape)

    def samples(self, last_values: Tensor, gamma: float, lam: float) -> Samples:
        """All ticks in rows, with advantages normalised over them. ``last_values``: of the
        states in which the rollout ended."""
        advantages = advantages_of(
            self.rewards, self.values, self.dones, last_values, gamma=gamma, lam=lam
        )
        spread = advantages.std() + 1e-8
        return Samples(
            self.observations.flatten(0, 1),
            self.actions.flatten(0, 1),
            self.log_probs.flatten(),
            self.means.flatten(0, 1),
            self.stds.flatten(0, 1),
            self.values.flatten(),
            ((advantages - advantages.mean()) / spread).flatten(),
            (advantages + self.values).flatten(),
        )


def advantages_of(
    rewards: Tensor,
    values: Tensor,
    dones: Tensor,
    last_values: Tensor,
    *,
    gamma: float,
    lam: float,
) -> Tensor:
    """Generalised advantage estimates, shape (ticks, environments) as the inputs.

    ``dones`` is 1.0 where the next tick belongs to another episode. What a timeout cut off must
    be in its reward already.
    """
    advantages = torch.zeros_like(rewards)
    following, ahead = last_values, torch.zeros_like(last_values)
    for tick in range(len(rewards) - 1, -1, -1):
        goes_on = 1.0 - dones[tick]
        surprise = rewards[tick] + gamma * goes_on * following - values[tick]
        ahead = surprise + gamma * lam * goes_on * ahead
        advantages[tick] = ahead
        following = values[tick]
    return advantages


def mini_batches(
    samples: Samples, epochs: int, batches: int, generator: torch.Generator
) -> Iterator[Samples]:
    """Each epoch in an order of its own, in ``batches`` equal parts."""
    count = len(samples.log_probs)
    for _ in range(epochs):
        order = torch.randperm(count, generator=generator)
        for rows in order.split(count // batches):
            yield Samples(*(column[rows] for column in samples))
