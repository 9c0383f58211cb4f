from __future__ import annotations

import multiprocessing
from collections.abc import Iterator

import numpy as np
import pytest

from unilab_metrics.demo.inference import (
    InferenceClient,
    InferenceGauges,
    InferenceQueue,
    create_inference,
)
from unilab_metrics.demo.ingress import StoppedError
from unilab_metrics.demo.shared import PeerLostError

ENVS = 4
FIRST = np.ones(ENVS, dtype=np.bool_)

Ends = tuple[InferenceClient, InferenceQueue]


@pytest.fixture(params=[1, 3])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    client, queue = create_inference(
        multiprocessing.get_context("spawn"),
        capacity=request.param,
        num_envs=ENVS,
        observation_size=2,
        action_size=1,
    )
    yield client, queue
    for end in (client.requests, client.responses, queue.requests, queue.responses):
        end.close()


def observations(value: float) -> np.ndarray:
    return np.full((ENVS, 2), value, dtype=np.float32)


def answer(queue: InferenceQueue, version: int) -> int:
    tick = queue.wait(timeout_s=5.0)
    assert tick is not None
    queue.slots.actions(tick)[:] = queue.slots.observations(tick)[:, :1] * 10.0
    queue.respond(tick, version)
    return tick


def test_each_tick_gets_the_actions_for_its_own_observations(ends: Ends) -> None:
    client, queue = ends
    for tick in range(1, 6):
        assert client.request(observations(tick), FIRST) == tick
        assert answer(queue, version=100 + tick) == tick
        response = client.wait(timeout_s=5.0)
        assert response is not None
        assert response.tick == tick
        assert response.policy_version == 100 + tick
        assert response.actions[:, 0].tolist() == [tick * 10.0] * ENVS


def test_nothing_to_do_is_a_timeout_on_both_sides(ends: Ends) -> None:
    client, queue = ends
    assert queue.wait(timeout_s=0.01) is None
    client.request(observations(1), FIRST)
    assert client.wait(timeout_s=0.01) is None


def test_dones_travel_with_the_observations(ends: Ends) -> None:
    client, queue = ends
    client.request(observations(0), np.array([True, False, True, False]))

    assert queue.slots.dones(1).tolist() == [True, False, True, False]


def test_gauges_follow_a_request_through_its_stages(ends: Ends) -> None:
    client, queue = ends
    gauges = client.slots.gauges
    assert gauges() == InferenceGauges(0, 0, 0, 0)
    client.request(observations(1), FIRST)
    assert gauges() == InferenceGauges(
        queue_depth=1, action_backlog=0, in_flight=1, publication_lag=1
    )
    tick = queue.wait(timeout_s=5.0)
    assert tick is not None
    assert gauges() == InferenceGauges(
        queue_depth=0, action_backlog=0, in_flight=1, publication_lag=1
    )
    queue.respond(tick, 0)
    assert gauges() == InferenceGauges(
        queue_depth=0, action_backlog=1, in_flight=1, publication_lag=0
    )
    client.wait(timeout_s=5.0)
    assert gauges() == InferenceGauges(0, 0, 0, 0)


def test_a_stop_withdraws_the_request(ends: Ends) -> None:
    client, queue = ends
    client.request(observations(1), FIRST)
    queue.stop()

    with pytest.raises(StoppedError):
        client.wait(timeout_s=30.0)
    assert client.slots.gauges() == InferenceGauges(0, 0, 0, 0)


def test_an_answer_before_the_stop_still_counts(ends: Ends) -> None:
    client, queue = ends
    client.request(observations(1), FIRST)
    answer(queue, version=1)
    queue.stop()

    assert client.wait(timeout_s=5.0) is not None


def test_a_collector_that_is_gone_ends_the_learners_wait(ends: Ends) -> None:
    client, queue = ends
    client.requests.close()

    with pytest.raises(PeerLostError):
        queue.wait(timeout_s=30.0)


def test_a_learner_that_is_gone_ends_the_collectors_wait(ends: Ends) -> None:
    client, queue = ends
    client.request(observations(1), FIRST)
    queue.responses.close()
    queue.requests.close()

    with pytest.raises(PeerLostError):
        client.wait(timeout_s=30.0)
    with pytest.raises(PeerLostError):
        client.request(observations(2), FIRST)


def test_actions_that_came_before_the_learner_died_are_used(ends: Ends) -> None:
    client, queue = ends
    client.request(observations(1), FIRST)
    answer(queue, version=1)
    queue.responses.close()

    assert client.wait(timeout_s=5.0) is not None
