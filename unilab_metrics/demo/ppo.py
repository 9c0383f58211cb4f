"""Proximal policy optimisation: clipped surrogate, one all-reduce and one step per mini-batch."""

# torch leaves many of its own parameters unannotated:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from unilab_metrics.demo.adam import Adam
from unilab_metrics.demo.gradient_sync import GradientSync
from unilab_metrics.demo.networks import LOG_TWO_PI, FlatWeights, initial_mlp, mlp
from unilab_metrics.demo.ppo_options import PpoAlgoOptions
from unilab_metrics.demo.rollout import Rollout, Samples, mini_batches
from unilab_metrics.demo.slow import SlowOptions, wait
from unilab_metrics.demo.voting_learner import VotingLearner

LEAST_RATE, MOST_RATE = 1e-5, 1e-2
_RATE_STEP = 1.5
_FIRST_ACTIONS = 0.05
"""The last layer of the policy begins so small: it learns from noise around 0."""

UPDATE_TAGS = (
    "Loss/surrogate",
    "Loss/value",
    "Loss/entropy",
    "Train/global_gradient_norm",
    "Train/approx_kl",
    "Train/clip_fraction",
)
"""What :meth:`Ppo.update` returns, in order."""


class Acted(NamedTuple):
    """What the policy did in each environment, and why. Actions are not clipped."""

    actions: Tensor
    log_probs: Tensor
    means: Tensor
    stds: Tensor
    values: Tensor


class Ppo(VotingLearner):
    """The networks and their optimiser. Owned by the learner's main thread.

    Two more elements than the weights need lie in the gradient buffer: the divergence, by which
    all ranks choose the same learning rate, and the rank's vote to stop.
    """

    def __init__(
        self,
        observation_size: int,
        action_size: int,
        options: PpoAlgoOptions,
        sync: GradientSync,
        slow: SlowOptions | None = None,
    ) -> None:
        """``slow``: whether acting or updating takes longer than it could."""
        self._options = options
        seeded = torch.Generator().manual_seed(options.seed)  # the same on all ranks
        hidden = options.hidden_size
        actor = initial_mlp((observation_size, hidden, hidden, action_size), seeded)
        actor[-2] *= _FIRST_ACTIONS
        critic = initial_mlp((observation_size, hidden, hidden, 1), seeded)
        log_std = [torch.full((action_size,), options.init_noise_std).log()]
        initial = (actor, critic, log_std)
        sizes = [sum(weight.numel() for weight in part) for part in initial]
        values = torch.zeros(sum(sizes))
        self._gradients = torch.zeros(sum(sizes) + 2)
        self._weight_gradients = self._gradients[:-2]
        self._actor, self._critic, self._log_std = map(
            FlatWeights, initial, values.split(sizes), self._weight_gradients.split(sizes)
        )
        super().__init__(Adam(values, options.learning_rate), sync, slow or SlowOptions())

    @property
    def mean_std(self) -> float:
        """Of the actions, now."""
        return float(self._log_std.values.exp().mean())

    @torch.no_grad()
    def act(self, observations: Tensor, generator: torch.Generator) -> Acted:
        """Actions of the present policy, with its exploration noise."""
        wait(self._act_wait_s)
        means = mlp(observations, self._actor.frozen())
        stds = self._log_std.values.exp().expand_as(means).clone()
        actions = means + stds * torch.randn(means.shape, generator=generator)
        log_probs = _log_probs(actions, means, stds)
        return Acted(actions, log_probs, means, stds, self.values(observations))

    @torch.no_grad()
    def values(self, observations: Tensor) -> Tensor:
        """Of the states, one each."""
        return mlp(observations, self._critic.frozen()).squeeze(-1)

    def update(self, rollout: Rollout, last_values: Tensor, generator: torch.Generator) -> Tensor:
        """All epochs over the rollout; the values of ``UPDATE_TAGS`` as one tensor."""
        options = self._options
        samples = rollout.samples(last_values, options.gamma, options.lam)
        batches = mini_batches(
            samples, options.num_learning_epochs, options.num_mini_batches, generator
        )
        return torch.stack([self._step(batch) for batch in batches]).mean(dim=0)

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint holds."""
        return {
            "actor": self._actor.values,
            "critic": self._critic.values,
            "log_std": self._log_std.values,
        }

    def _step(self, batch: Samples) -> Tensor:
        wait(self._update_wait_s)
        options = self._options
        self._gradients.zero_()
        means = mlp(batch.observations, self._actor.weights)
        log_std = self._log_std.weights[0]
        stds = log_std.exp().expand_as(means)
        ratio = (_log_probs(batch.actions, means, stds) - batch.log_probs).exp()
        limit = options.clip_param
        clipped = ratio.clamp(1.0 - limit, 1.0 + limit)
        surrogate = -torch.minimum(ratio * batch.advantages, clipped * batch.advantages).mean()
        value_loss = self._value_loss(batch)
        entropy = (log_std + 0.5 * (1.0 + LOG_TWO_PI)).sum()
        loss = surrogate + options.value_loss_coef * value_loss - options.entropy_coef * entropy
        torch.autograd.backward(loss)

        divergence = _divergence(batch, means.detach(), stds.detach())
        self._gradients[-2], self._gradients[-1] = divergence, self._vote
        self._sync.average(self._gradients)
        self.stop_voted = self.stop_voted or bool(self._gradients[-1] > 0.0)
        self._adapt(float(self._gradients[-2]))
        norm = torch.linalg.vector_norm(self._weight_gradients)
        self._weight_gradients.mul_((options.max_grad_norm / (norm + 1e-6)).clamp(max=1.0))
        self._optimizer.step(self._weight_gradients)
        outside = ((ratio.detach() - 1.0).abs() > limit).float().mean()
        return torch.stack(
            [surrogate.detach(), value_loss.detach(), entropy.detach(), norm, divergence, outside]
        )

    def _value_loss(self, batch: Samples) -> Tensor:
        """As careful as the policy's: a value that moves further than the limit gains nothing."""
        values = mlp(batch.observations, self._critic.weights).squeeze(-1)
        limit = self._options.clip_param
        near = batch.values + (values - batch.values).clamp(-limit, limit)
        errors = (values - batch.returns).square(), (near - batch.returns).square()
        return torch.maximum(*errors).mean()

    def _adapt(self, divergence: float) -> None:
        if self._options.schedule == "fixed":
            return
        desired, optimizer = self._options.desired_kl, self._optimizer
        if divergence > 2.0 * desired:
            optimizer.learning_rate = max(optimizer.learning_rate / _RATE_STEP, LEAST_RATE)
        elif 0.0 < divergence < 0.5 * desired:
            optimizer.learning_rate = min(optimizer.learning_rate * _RATE_STEP, MOST_RATE)


def _log_probs(actions: Tensor, means: Tensor, stds: Tensor) -> Tensor:
    scaled = (actions - means) / stds
    return (-0.5 * (scaled.square() + LOG_TWO_PI) - stds.log()).sum(dim=-1)


def _divergence(batch: Samples, means: Tensor, stds: Tensor) -> Tensor:
    """Of the present policy from the one that acted, in nats, mean over the batch."""
    moved = (batch.means - means).square() + batch.stds.square()
    each = (stds / batch.stds).log() + moved / (2.0 * stds.square()) - 0.5
    return each.sum(dim=-1).mean()
