from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from unilab_metrics.demo.inference import InferenceClient, create_inference
from unilab_metrics.demo.policy_server import PolicyServer, UniformPolicy, Untimed

ENVS = 4
FIRST = np.ones(ENVS, dtype=np.bool_)


class Doubling:
    """Answers with twice the first observation."""

    def act(self, observations: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return observations[:, :1] * 2.0


class Recorder:
    """Phases in the order in which they began and ended, and the details."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.details: dict[str, int] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self.said.append(f"begin {name}")
        yield
        self.said.append(f"end {name}")

    def add_phase_ns(self, name: str, duration_ns: int) -> None:
        self.said.append(name)
        self.details[name] = duration_ns


@pytest.fixture
def ends() -> Iterator[tuple[InferenceClient, PolicyServer]]:
    client, queue = create_inference(
        multiprocessing.get_context("spawn"),
        capacity=2,
        num_envs=ENVS,
        observation_size=3,
        action_size=1,
    )
    yield client, PolicyServer(queue, seed=1)
    for end in (client.requests, client.responses, queue.requests, queue.responses):
        end.close()


def observations(value: float) -> np.ndarray:
    return np.full((ENVS, 3), value, dtype=np.float32)


def test_each_tick_is_answered_by_the_version_that_computed_it(
    ends: tuple[InferenceClient, PolicyServer],
) -> None:
    client, server = ends
    for version in range(3):
        server.policy_version = version
        client.request(observations(version + 0.5), FIRST)
        tick = server.wait(timeout_s=5.0)
        assert tick is not None
        assert tick == version + 1
        server.act(tick, Doubling(), Untimed())
        response = client.wait(timeout_s=5.0)
        assert response is not None
        assert response.policy_version == version
        assert response.actions.tolist() == [[2 * version + 1.0]] * ENVS


def test_the_phases_of_a_tick_follow_each_other_and_details_lie_inside(
    ends: tuple[InferenceClient, PolicyServer],
) -> None:
    client, server = ends
    timing = Recorder()
    client.request(observations(1.0), FIRST)
    server.act(1, Doubling(), timing)

    assert timing.said == [
        "begin inference",
        "inference_h2d",
        "inference_forward",
        "inference_d2h",
        "end inference",
        "begin collector_release",
        "end collector_release",
    ]
    assert all(duration_ns > 0 for duration_ns in timing.details.values())
    assert sum(timing.details.values()) == server.last.total_ns


def test_the_warm_up_acts_over_the_whole_interval() -> None:
    random = torch.Generator().manual_seed(1)
    actions = UniformPolicy(2).act(torch.zeros(1000, 3), random)

    assert actions.shape == (1000, 2)
    assert actions.min() < -0.9
    assert actions.max() > 0.9
    assert abs(float(actions.mean())) < 0.1
