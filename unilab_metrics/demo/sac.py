"""Soft actor-critic with a learned temperature: one backward pass, one all-reduce, one step."""

# torch leaves many of its own parameters unannotated:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from unilab_metrics.demo.adam import Adam
from unilab_metrics.demo.gradient_sync import GradientSync
from unilab_metrics.demo.networks import FlatWeights, initial_mlp, policy, q_values, sample
from unilab_metrics.demo.options import AlgoOptions
from unilab_metrics.demo.slow import SlowOptions, wait
from unilab_metrics.demo.voting_learner import VotingLearner

CRITICS = 2


class Batch(NamedTuple):
    """Rows of the replay. ``terminated`` is 1.0 where the next state has no value."""

    observations: Tensor
    actions: Tensor
    rewards: Tensor
    next_observations: Tensor
    terminated: Tensor


UPDATE_TAGS = (
    "Loss/critic",
    "Loss/actor",
    "Loss/temperature",
    "Loss/entropy",
    "Policy/mean_std",
    "Train/target_q_max",
    "Train/target_q_min",
    "Train/actor_gradient_norm",
    "Train/critic_gradient_norm",
)
"""What :meth:`Sac.update` returns, in order."""


class Sac(VotingLearner):
    """The networks and their optimiser. Owned by the learner's main thread.

    One more element than the weights need lies in the gradient buffer: the rank's vote to
    stop, so that all ranks leave the loop after the same update without another collective.
    """

    def __init__(
        self,
        observation_size: int,
        action_size: int,
        options: AlgoOptions,
        sync: GradientSync,
        slow: SlowOptions | None = None,
    ) -> None:
        """``slow``: whether acting or updating takes longer than it could."""
        self._options = options
        self._target_entropy = -float(action_size)
        seeded = torch.Generator().manual_seed(options.seed)  # the same on all ranks
        hidden = options.hidden_size
        actor = initial_mlp((observation_size, hidden, hidden, 2 * action_size), seeded)
        critic_sizes = (observation_size + action_size, hidden, hidden, 1)
        critic = initial_mlp(critic_sizes, seeded, copies=CRITICS)
        log_temperature = [torch.tensor([options.initial_temperature]).log()]
        initial = (actor, critic, log_temperature)
        sizes = [sum(weight.numel() for weight in part) for part in initial]
        values = torch.zeros(sum(sizes))
        self._gradients = torch.zeros(sum(sizes) + 1)
        self._actor, self._critic, self._temperature = map(
            FlatWeights, initial, values.split(sizes), self._gradients[:-1].split(sizes)
        )
        self._target_values, self._target = self._critic.copy()
        super().__init__(Adam(values, options.learning_rate), sync, slow or SlowOptions())

    @property
    def temperature(self) -> float:
        """The present weight of the entropy."""
        return float(self._temperature.values.exp())

    @torch.no_grad()
    def act(self, observations: Tensor, generator: torch.Generator) -> Tensor:
        """Actions of the present policy, with its exploration noise."""
        wait(self._act_wait_s)
        mean, log_std = policy(observations, self._actor.frozen())
        return sample(mean, log_std, generator)[0]

    def update(self, batch: Batch, generator: torch.Generator) -> Tensor:
        """One gradient step on all networks; the values of ``UPDATE_TAGS`` as one tensor."""
        wait(self._update_wait_s)
        temperature = self._temperature.values.exp()
        target = self._target_q(batch, temperature, generator)

        self._gradients.zero_()
        q = q_values(batch.observations, batch.actions, self._critic.weights)
        critic_loss = (q - target).square().mean(dim=1).sum()

        mean, log_std = policy(batch.observations, self._actor.weights)
        actions, log_prob = sample(mean, log_std, generator)
        action_value = q_values(batch.observations, actions, self._critic.frozen()).amin(dim=0)
        actor_loss = (temperature * log_prob - action_value).mean()

        entropy = -log_prob.detach().mean()
        log_temperature = self._temperature.weights[0]
        temperature_loss = (log_temperature * (entropy - self._target_entropy)).sum()

        torch.autograd.backward(critic_loss + actor_loss + temperature_loss)
        self._gradients[-1] = self._vote
        self._sync.average(self._gradients)
        self.stop_voted = bool(self._gradients[-1] > 0.0)
        self._optimizer.step(self._gradients[:-1])
        self._target_values.lerp_(self._critic.values, self._options.tau)
        return torch.stack(
            [
                critic_loss.detach(),
                actor_loss.detach(),
                temperature_loss.detach(),
                entropy,
                log_std.detach().exp().mean(),
                target.max(),
                target.min(),
                torch.linalg.vector_norm(self._actor.gradients),
                torch.linalg.vector_norm(self._critic.gradients),
            ]
        )

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint holds."""
        return {
            "actor": self._actor.values,
            "critic": self._critic.values,
            "target": self._target_values,
            "log_temperature": self._temperature.values,
        }

    @torch.no_grad()
    def _target_q(self, batch: Batch, temperature: Tensor, generator: torch.Generator) -> Tensor:
        mean, log_std = policy(batch.next_observations, self._actor.frozen())
        actions, log_prob = sample(mean, log_std, generator)
        q = q_values(batch.next_observations, actions, self._target).amin(dim=0)
        value = q - temperature * log_prob
        return batch.rewards + self._options.gamma * (1.0 - batch.terminated) * value
