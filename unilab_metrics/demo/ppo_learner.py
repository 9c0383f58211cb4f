"""The loop of a rank of PPO: collect, update, log. The environments run in the same thread."""

# torch leaves many of its own parameters unannotated:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import time
from typing import Any

import torch

from unilab_metrics.demo.checkpoint import Checkpoints
from unilab_metrics.demo.environment import ACTION_SIZE, OBSERVATION_SIZE, CartReachEnv
from unilab_metrics.demo.gradient_sync import GradientSync
from unilab_metrics.demo.policy_server import Untimed
from unilab_metrics.demo.ppo import UPDATE_TAGS, Ppo
from unilab_metrics.demo.ppo_options import PpoOptions
from unilab_metrics.demo.rank import Rank
from unilab_metrics.demo.reward_means import RewardMeans
from unilab_metrics.demo.rollout import Rollout


class PpoLearner:
    """Owned by the rank's main thread. Iterations count from 0, as rsl_rl's do."""

    def __init__(
        self,
        options: PpoOptions,
        rank: Rank,
        *,
        ppo: Ppo,
        sync: GradientSync,
        checkpoints: Checkpoints | None,
    ) -> None:
        algo = options.algo
        self._options = options
        self._rank = rank
        self._ppo = ppo
        self._sync = sync
        self._checkpoints = checkpoints
        self._env = CartReachEnv(algo.num_envs, options.env.episode_ticks, rank.seed)
        self._env.wait_s = options.slow.wait_s("env")
        self._generator = torch.Generator().manual_seed(rank.seed + 1)
        self._rollout = Rollout(
            algo.num_steps_per_env, algo.num_envs, OBSERVATION_SIZE, ACTION_SIZE
        )
        self._rewards = RewardMeans()
        self._observations = torch.from_numpy(self._env.reset())
        self.completed = 0
        """Iterations so far."""
        self.env_steps = 0
        """Environment steps of this rank so far."""
        self.wall_s = 0.0
        """Time in iterations so far."""

    def run(self) -> None:
        """To the last iteration, or until a rank was asked to stop."""
        self._rank.metrics.start_training()
        while self.completed < self._options.algo.max_iterations and not self._ppo.stop_voted:
            began = time.perf_counter()
            self._iterate(self.completed)
            self.wall_s += time.perf_counter() - began
            self.completed += 1
            if self._checkpoints is not None:
                self._checkpoints.after(self.completed, self._ppo)

    def _iterate(self, iteration: int) -> None:
        metrics = self._rank.metrics
        metrics.start_iteration()
        if self._rank.stop.check():
            self._ppo.vote_to_stop()
        with metrics.phase("collection"):
            self._collect()
            last_values = self._ppo.values(self._observations)
        with metrics.phase("learning"):
            means = self._ppo.update(self._rollout, last_values, self._generator).tolist()
        values: dict[str, Any] = dict(zip(UPDATE_TAGS, means, strict=True))
        values["Loss/learning_rate"] = self._ppo.learning_rate
        values["Policy/mean_std"] = self._ppo.mean_std
        values |= self._rewards.take()
        if (cost := self._sync.cost()) is not None:
            values["Perf/dp_gradient_sync_ms_per_rank"] = cost.duration_ms
            values["Perf/dp_gradient_sync_calls_per_rank"] = cost.calls
        values["Terminal/num_envs"] = self._options.algo.num_envs
        self.env_steps += self._options.samples_per_iteration
        metrics.log(values, iteration=iteration, env_steps=self.env_steps)

    def _collect(self) -> None:
        rollout, gamma = self._rollout, self._options.algo.gamma
        untimed = Untimed().phase
        for tick in range(rollout.ticks):
            acted = self._ppo.act(self._observations, self._generator)
            result = self._env.step(acted.actions.numpy(), untimed)
            dones = result.terminated | result.timeouts
            rewards = torch.from_numpy(result.rewards.copy())
            if result.timeouts.any():
                # The time was up, but what follows would still have been worth something.
                final = self._ppo.values(torch.from_numpy(result.final_observations))
                rewards += gamma * final * torch.from_numpy(result.timeouts)
            rollout.observations[tick] = self._observations
            rollout.actions[tick] = acted.actions
            rollout.log_probs[tick] = acted.log_probs
            rollout.means[tick] = acted.means
            rollout.stds[tick] = acted.stds
            rollout.values[tick] = acted.values
            rollout.rewards[tick] = rewards
            rollout.dones[tick] = torch.from_numpy(dones)
            self._observations = torch.from_numpy(result.observations)
            self._rank.metrics.episodes.step(result.rewards, dones, result.timeouts)
            self._rewards.add(result.terms)
