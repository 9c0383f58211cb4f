"""The learner's side of inference: copies observations in, acts, copies actions out."""

# torch leaves many of its own parameters unannotated:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from unilab_metrics.demo.inference import InferenceQueue


class Policy(Protocol):
    """Whatever acts."""

    def act(self, observations: Tensor, generator: torch.Generator) -> Tensor:
        """Actions in [-1, 1] for a batch of observations."""
        ...


class Timing(Protocol):
    """Where the phases of a tick are measured; a publisher is one."""

    def phase(self, name: str) -> AbstractContextManager[object]:
        """Times a phase."""
        ...

    def add_phase_ns(self, name: str, duration_ns: int) -> None:
        """Adds a duration that was measured elsewhere."""
        ...


class Untimed:
    """Measures nothing: the warm-up is no part of any iteration."""

    def phase(self, name: str) -> AbstractContextManager[object]:
        """A context that does nothing."""
        del name
        return nullcontext()

    def add_phase_ns(self, name: str, duration_ns: int) -> None:
        """Forgets it."""


class UniformPolicy:
    """Acts at random; fills the replay before there is anything to learn from."""

    def __init__(self, action_size: int) -> None:
        self._action_size = action_size

    def act(self, observations: Tensor, generator: torch.Generator) -> Tensor:
        """Uniform actions."""
        shape = (len(observations), self._action_size)
        return torch.rand(shape, generator=generator) * 2.0 - 1.0


class InferenceCost(NamedTuple):
    """Where the last tick's inference went, in nanoseconds."""

    total_ns: int = 0
    h2d_ns: int = 0
    forward_ns: int = 0
    d2h_ns: int = 0


class PolicyServer:
    """Answers one tick at a time, between two updates. Owned by the learner's main thread."""

    def __init__(self, queue: InferenceQueue, seed: int) -> None:
        self._queue = queue
        self._generator = torch.Generator().manual_seed(seed)
        slots = queue.slots
        ticks = range(slots.capacity)
        self._host_observations = [torch.from_numpy(slots.observations(t)) for t in ticks]
        self._host_actions = [torch.from_numpy(slots.actions(t)) for t in ticks]
        self._observations = torch.empty_like(self._host_observations[0])
        self.policy_version = 0
        """Complete updates so far; every tick is answered by one version."""
        self.last = InferenceCost()
        """Of the last tick."""

    def wait(self, timeout_s: float) -> int | None:
        """The tick that waits for its actions, ``None`` after ``timeout_s``.

        Raises :class:`unilab_metrics.demo.shared.PeerLostError`.
        """
        return self._queue.wait(timeout_s)

    def act(self, tick: int, policy: Policy, timing: Timing) -> None:
        """Inference for the tick, then the release of its collector; both are phases."""
        slot = tick % self._queue.slots.capacity
        with timing.phase("inference"):
            began = time.perf_counter_ns()
            self._observations.copy_(self._host_observations[slot])
            copied = time.perf_counter_ns()
            actions = policy.act(self._observations, self._generator)
            acted = time.perf_counter_ns()
            self._host_actions[slot].copy_(actions)
            ended = time.perf_counter_ns()
            self.last = InferenceCost(ended - began, copied - began, acted - copied, ended - acted)
            timing.add_phase_ns("inference_h2d", self.last.h2d_ns)
            timing.add_phase_ns("inference_forward", self.last.forward_ns)
            timing.add_phase_ns("inference_d2h", self.last.d2h_ns)
        with timing.phase("collector_release"):
            self._queue.respond(tick, self.policy_version)
