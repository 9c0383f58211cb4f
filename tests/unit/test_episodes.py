"""Episode statistics and inference gauges of a collector."""

from __future__ import annotations

import numpy as np
import pytest

from unilab_metrics.publish.episodes import EpisodeStatistics
from unilab_metrics.publish.gauges import InferenceGauges


def test_nothing_is_reported_before_the_first_finished_episode() -> None:
    episodes = EpisodeStatistics()
    episodes.step(np.ones(3), np.zeros(3, bool))
    assert episodes.collect() == {}


def test_returns_and_lengths_are_per_environment() -> None:
    episodes = EpisodeStatistics()
    episodes.step([1.0, 10.0], [False, False])
    episodes.step(np.array([1.0, 10.0], np.float32), np.array([True, False]), [False, False])
    episodes.step([5.0, 10.0], [0, 1], timeouts=[0, 1])
    assert episodes.collect() == {
        "Train/mean_reward": (2.0 + 30.0) / 2,
        "Train/mean_episode_length": (2 + 3) / 2,
        "Episode/timeout_rate": 0.5,
    }


def test_a_timeout_ends_the_episode_even_if_dones_leave_it_out() -> None:
    episodes = EpisodeStatistics()
    episodes.step([1.0], [False], [True])
    assert episodes.collect()["Episode/timeout_rate"] == 1.0


def test_only_the_last_hundred_episodes_count() -> None:
    episodes = EpisodeStatistics()
    for reward in range(150):
        episodes.step([float(reward)], [True])
    assert episodes.collect()["Train/mean_reward"] == sum(range(50, 150)) / 100
    assert episodes.total_finished == 150


def test_the_timeout_rate_is_since_the_last_report_with_a_finish_and_then_stays() -> None:
    episodes = EpisodeStatistics()
    episodes.step([1.0, 1.0], [True, True], [True, True])
    assert episodes.collect()["Episode/timeout_rate"] == 1.0
    episodes.step([1.0, 1.0], [True, True], [True, False])
    assert episodes.collect()["Episode/timeout_rate"] == 0.5
    episodes.step([1.0, 1.0], [False, False], [False, False])
    assert episodes.collect()["Episode/timeout_rate"] == 0.5


def test_tensors_are_accepted() -> None:
    torch = pytest.importorskip("torch")
    episodes = EpisodeStatistics()
    rewards = torch.tensor([1.0, 2.0], dtype=torch.bfloat16, requires_grad=True)
    episodes.step(rewards, torch.tensor([True, False]), torch.tensor([False, False]))
    assert episodes.collect()["Train/mean_reward"] == 1.0


def test_an_episode_may_be_counted_by_the_caller() -> None:
    episodes = EpisodeStatistics()
    episodes.finish(3.0, 7, timeout=True)
    assert episodes.collect() == {
        "Train/mean_reward": 3.0,
        "Train/mean_episode_length": 7.0,
        "Episode/timeout_rate": 1.0,
    }


def test_vectors_of_different_sizes_are_refused_and_change_nothing() -> None:
    episodes = EpisodeStatistics()
    episodes.step([1.0, 1.0], [False, False])
    with pytest.raises(ValueError, match="environments"):
        episodes.step([1.0, 1.0, 1.0], [True, True, True])
    episodes.step([1.0, 1.0], [True, True])
    assert episodes.collect()["Train/mean_reward"] == 2.0


def test_maxima_are_since_the_last_accepted_report() -> None:
    gauges = InferenceGauges()
    assert gauges.values() == {}
    gauges.set({"queue_depth": 3, "in_flight": 2, "action_backlog": 1, "publication_lag": 5})
    gauges.set({"queue_depth": 1, "in_flight": 1, "action_backlog": 0, "publication_lag": 0})
    refused = gauges.values()
    assert refused["Perf/collector_inference_queue_depth"] == 1
    assert refused["Perf/collector_inference_max_in_flight"] == 2
    assert refused["Perf/collector_inference_max_publication_lag"] == 5
    assert "Perf/collector_inference_max_queue_depth" not in refused
    assert gauges.values() == refused
    gauges.accepted()
    assert gauges.values()["Perf/collector_inference_max_in_flight"] == 1
    assert gauges.values()["Perf/collector_inference_max_publication_lag"] == 0
