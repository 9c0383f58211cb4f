"""The task: a cart balances a pole and drives to a target; many at once, NumPy only."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unilab_metrics.demo.cart_pole import CONTROL_DT_S, CartPoleBackend
from unilab_metrics.demo.slow import wait

Array = NDArray[np.float32]
Phase = Callable[[str], AbstractContextManager[object]]
"""Opens a timed phase by name; ``Publisher.phase`` is one."""

OBSERVATION_SIZE = 7
ACTION_SIZE = 1
TRACK_LIMIT_M = 2.4
FALL_LIMIT_RAD = 0.5
TARGET_LIMIT_M = 1.5

REWARD_WEIGHTS = {
    "alive": 1.0,
    "target_tracking": 3.0,
    "upright": 1.0,
    "cart_velocity": -0.02,
    "pole_velocity": -0.02,
    "action_rate": -0.05,
    "fall": -20.0,
}
"""Weight of each term; the tick's reward is the weighted sum times the control step."""


class StepResult(NamedTuple):
    """One tick of all environments.

    ``observations``: where the next tick starts, after resets; ``final_observations``: where
    this one ended. ``terminated``: fell or left the track; ``timeouts``: the time was up, so
    that the value of the final state still counts. ``terms``: mean over the environments of
    raw value times weight, without the control step.
    """

    observations: Array
    final_observations: Array
    rewards: Array
    terminated: NDArray[np.bool_]
    timeouts: NDArray[np.bool_]
    terms: dict[str, float]


class CartReachEnv:
    """``num_envs`` independent cart-poles that reset themselves. Owned by one thread."""

    def __init__(self, num_envs: int, episode_ticks: int, seed: int) -> None:
        self.num_envs = num_envs
        self.wait_s = 0.0
        """By how much the physics of a tick is slower than it could be."""
        self._episode_ticks = episode_ticks
        self._random = np.random.default_rng(seed)
        self._backend = CartPoleBackend(num_envs)
        self._targets = np.zeros(num_envs, dtype=np.float32)
        self._actions = np.zeros(num_envs, dtype=np.float32)
        self._previous = np.zeros(num_envs, dtype=np.float32)
        self._ticks = np.zeros(num_envs, dtype=np.int64)

    def reset(self) -> Array:
        """Starts every environment anew and returns the first observations."""
        self._reset(np.ones(self.num_envs, dtype=np.bool_))
        return self._observe()

    def step(self, actions: Array, phase: Phase) -> StepResult:
        """One control tick. ``actions``: (num_envs, 1) in [-1, 1], clipped.

        Raises ``ValueError`` for actions of another shape or that are not finite.
        """
        with phase("env_step_action_validate"):
            self._validate(actions)
        with phase("env_step_action_backend"):
            with phase("env_step_apply_action"):
                self._apply_action(actions)
            with phase("env_step_backend"):
                self._backend.step(self._actions)
                wait(self.wait_s)
        with phase("env_step_update_state"):
            self._ticks += 1
            terminated = self._terminated()
            timeouts = (self._ticks >= self._episode_ticks) & ~terminated
            rewards, terms = self._rewards(terminated)
            final = self._observe()
        with phase("env_step_reset_done"):
            done = terminated | timeouts
            observations = final
            if done.any():
                self._reset(done)
                observations = self._observe()
        return StepResult(observations, final, rewards, terminated, timeouts, terms)

    def _validate(self, actions: Array) -> None:
        if actions.shape != (self.num_envs, ACTION_SIZE):
            raise ValueError(
                f"actions of shape {actions.shape}, expected {(self.num_envs, ACTION_SIZE)}"
            )
        if not np.isfinite(actions).all():
            raise ValueError("actions are not finite")

    def _apply_action(self, actions: Array) -> None:
        np.copyto(self._previous, self._actions)
        np.minimum(np.maximum(actions[:, 0], -1.0), 1.0, out=self._actions)

    def _terminated(self) -> NDArray[np.bool_]:
        backend = self._backend
        fallen = np.abs(backend.pole_angle) > FALL_LIMIT_RAD
        return fallen | (np.abs(backend.cart_position) > TRACK_LIMIT_M)

    def _rewards(self, terminated: NDArray[np.bool_]) -> tuple[Array, dict[str, float]]:
        backend = self._backend
        distance = np.abs(self._targets - backend.cart_position)
        raw = {
            "alive": ~terminated,
            "target_tracking": np.exp(-2.0 * distance),
            "upright": np.exp(-np.square(4.0 * backend.pole_angle)),
            "cart_velocity": np.square(backend.cart_velocity),
            "pole_velocity": np.square(backend.pole_velocity),
            "action_rate": np.square(self._actions - self._previous),
            "fall": terminated,
        }
        weighted = np.stack(
            [raw[term].astype(np.float32) * weight for term, weight in REWARD_WEIGHTS.items()]
        )
        means = weighted.mean(axis=1).tolist()
        rewards = weighted.sum(axis=0) * np.float32(CONTROL_DT_S)
        return rewards, dict(zip(REWARD_WEIGHTS, means, strict=True))

    def _reset(self, chosen: NDArray[np.bool_]) -> None:
        count = int(chosen.sum())
        uniform = self._random.uniform(-1.0, 1.0, size=(3, count)).astype(np.float32)
        self._backend.reset(chosen, position=uniform[0], angle=0.1 * uniform[1])
        self._targets[chosen] = TARGET_LIMIT_M * uniform[2]
        self._actions[chosen] = 0.0
        self._ticks[chosen] = 0

    def _observe(self) -> Array:
        backend = self._backend
        return np.stack(
            [
                backend.cart_position,
                backend.cart_velocity,
                np.sin(backend.pole_angle),
                np.cos(backend.pole_angle),
                backend.pole_velocity,
                self._targets - backend.cart_position,
                self._actions,
            ],
            axis=1,
        )
