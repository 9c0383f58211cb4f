"""The inference slot and request queue between a collector and the learner that acts for it.

The collector writes the observations of tick t into slot ``t % capacity`` and raises
``requested``; the learner answers between two updates: it writes the actions of t and the
policy version into the slot and raises ``responded`` (the response token); the collector
takes them and raises ``consumed``. Ticks count from 1, so each counter is the last tick that
went through its stage.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from multiprocessing.context import SpawnContext
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unilab_metrics.demo.ingress import StoppedError
from unilab_metrics.demo.shared import Listener, PeerLostError, Ringer, SharedArrays, create_bell

Array = NDArray[np.float32]


class InferenceGauges(NamedTuple):
    """Where the ticks are. ``queue_depth``: requests that the learner has not begun;
    ``in_flight``: requests whose actions the collector does not have yet; ``action_backlog``:
    published actions that it has not taken; ``publication_lag``: ticks requested beyond the
    last one that has its actions."""

    queue_depth: int
    action_backlog: int
    in_flight: int
    publication_lag: int


class InferenceSlots:
    """The shared memory of the queue: counters of one writer each, and the slots."""

    def __init__(
        self,
        context: SpawnContext,
        *,
        capacity: int,
        num_envs: int,
        observation_size: int,
        action_size: int,
    ) -> None:
        self.capacity = capacity
        counter = ((1,), np.int64)
        self._arrays = SharedArrays(
            context,
            {
                "requested": counter,
                "begun": counter,
                "responded": counter,
                "consumed": counter,
                "stopped": counter,
                "policy_versions": ((capacity,), np.int64),
                "observations": ((capacity, num_envs, observation_size), np.float32),
                "dones": ((capacity, num_envs), np.bool_),
                "actions": ((capacity, num_envs, action_size), np.float32),
            },
        )

    def get(self, counter: str) -> int:
        """The present value of a counter."""
        return int(self._arrays[counter][0])

    def set(self, counter: str, value: int) -> None:
        """Only the counter's one writer may call this."""
        self._arrays[counter][0] = value

    def observations(self, tick: int) -> Array:
        """The observations that the tick's actions are for."""
        return self._arrays["observations"][tick % self.capacity]

    def dones(self, tick: int) -> NDArray[np.bool_]:
        """Which of the observations begin an episode."""
        return self._arrays["dones"][tick % self.capacity]

    def actions(self, tick: int) -> Array:
        """The actions of the tick."""
        return self._arrays["actions"][tick % self.capacity]

    def policy_versions(self) -> NDArray[np.int64]:
        """By slot: the version of the policy that computed its actions."""
        return self._arrays["policy_versions"]

    def gauges(self) -> InferenceGauges:
        """Where the ticks are now, as the collector sees it."""
        requested = self.get("requested")
        responded = self.get("responded")
        consumed = self.get("consumed")
        return InferenceGauges(
            queue_depth=max(requested - self.get("begun"), 0),
            action_backlog=max(responded - consumed, 0),
            in_flight=requested - consumed,
            publication_lag=max(requested - responded, 0),
        )


class Response(NamedTuple):
    """The actions of one tick: views of the slot, valid until the next request."""

    tick: int
    policy_version: int
    actions: Array


@dataclass
class InferenceClient:
    """The collector's end; owned by its main thread."""

    slots: InferenceSlots
    requests: Ringer
    responses: Listener

    def request(self, observations: Array, dones: NDArray[np.bool_]) -> int:
        """Publishes the observations of the next tick and returns its number.

        Raises :class:`PeerLostError` when the learner is gone.
        """
        tick = self.slots.get("requested") + 1
        self.slots.observations(tick)[:] = observations
        self.slots.dones(tick)[:] = dones
        self.slots.set("requested", tick)
        self.requests.ring()
        return tick

    def wait(self, timeout_s: float) -> Response | None:
        """The actions of the requested tick; ``None`` when ``timeout_s`` passed without.

        Raises :class:`StoppedError` (the request is withdrawn), or :class:`PeerLostError`.
        """
        tick = self.slots.get("requested")
        self.responses.wait_for(lambda: self._may_go_on(tick), timeout_s)
        if self.slots.get("responded") >= tick:
            self.slots.set("consumed", tick)
            version = int(self.slots.policy_versions()[tick % self.slots.capacity])
            return Response(tick, version, self.slots.actions(tick))
        if self.slots.get("stopped"):
            self.slots.set("requested", self.slots.get("consumed"))
            raise StoppedError
        return None

    def _may_go_on(self, tick: int) -> bool:
        return self.slots.get("responded") >= tick or self.slots.get("stopped") > 0


@dataclass
class InferenceQueue:
    """The learner's end; owned by its main thread."""

    slots: InferenceSlots
    requests: Listener
    responses: Ringer

    def wait(self, timeout_s: float) -> int | None:
        """The number of the oldest request that has no response, ``None`` after the timeout.

        Raises :class:`PeerLostError` when the collector is gone.
        """
        tick = self.slots.get("responded") + 1
        if not self.requests.wait_for(lambda: self.slots.get("requested") >= tick, timeout_s):
            return None
        self.slots.set("begun", tick)
        return tick

    def respond(self, tick: int, policy_version: int) -> None:
        """Publishes the actions in the tick's slot. Raises :class:`PeerLostError`."""
        self.slots.policy_versions()[tick % self.slots.capacity] = policy_version
        self.slots.set("responded", tick)
        self.responses.ring()

    def stop(self) -> None:
        """Ends the collector: its pending request stays unanswered."""
        self.slots.set("stopped", 1)
        with contextlib.suppress(PeerLostError):
            self.responses.ring()


def create_inference(
    context: SpawnContext,
    *,
    capacity: int,
    num_envs: int,
    observation_size: int,
    action_size: int,
) -> tuple[InferenceClient, InferenceQueue]:
    """Both ends of a new queue."""
    slots = InferenceSlots(
        context,
        capacity=capacity,
        num_envs=num_envs,
        observation_size=observation_size,
        action_size=action_size,
    )
    request_ringer, request_listener = create_bell(context)
    response_ringer, response_listener = create_bell(context)
    return (
        InferenceClient(slots, request_ringer, response_listener),
        InferenceQueue(slots, request_listener, response_ringer),
    )
