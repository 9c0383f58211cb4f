from __future__ import annotations

import pytest

from unilab_metrics.demo.figures import TAIL_ITERATIONS, Throughput
from unilab_metrics.demo.policy_server import InferenceCost
from unilab_metrics.demo.process_group import ProcessGroup


class TwoRanks(ProcessGroup):
    """As if another rank had the same figures."""

    def __init__(self) -> None:
        super().__init__(rank=0, world_size=2)

    def sum(self, *values: float) -> list[float]:
        return [2.0 * value for value in values]


COST = InferenceCost(4_000_000, 1_000_000, 2_000_000, 500_000)


def test_rates_and_counters_are_summed_over_ranks_and_durations_averaged() -> None:
    throughput = Throughput()
    throughput.start(1000)
    throughput.add(1032, rows=100, wall_s=0.5)
    throughput.add(1096, rows=100, wall_s=0.25)
    summary = throughput.summary(TwoRanks(), total_env_steps=1100, inference=COST)

    assert summary["total_env_steps"] == 2200
    assert summary["tail_env_steps_per_sec"] == pytest.approx(2 * 96 / 0.75)
    assert summary["tail_iteration_count"] == 2
    assert summary["final_env_steps_per_sec"] == pytest.approx(2 * 64 / 0.25)
    assert summary["final_learner_replay_rows_per_sec"] == pytest.approx(2 * 100 / 0.25)
    assert summary["final_cycle_wall_ms"] == pytest.approx(250.0)
    assert summary["final_inference_ms"] == 4.0
    assert summary["final_inference_h2d_ms"] == 1.0
    assert summary["final_inference_forward_ms"] == 2.0
    assert summary["final_inference_d2h_ms"] == 0.5


def test_the_tail_forgets_iterations_with_their_own_steps() -> None:
    throughput = Throughput()
    throughput.start(0)
    throughput.add(1_000_000, rows=1, wall_s=1.0)
    for n in range(1, TAIL_ITERATIONS + 1):
        throughput.add(1_000_000 + n, rows=1, wall_s=1.0)
    summary = throughput.summary(TwoRanks(), total_env_steps=0, inference=COST)

    assert summary["tail_iteration_count"] == TAIL_ITERATIONS
    assert summary["tail_env_steps_per_sec"] == pytest.approx(2.0)


def test_without_an_iteration_there_is_no_throughput() -> None:
    summary = Throughput().summary(TwoRanks(), total_env_steps=0, inference=InferenceCost())

    assert summary["tail_env_steps_per_sec"] is None
    assert summary["final_cycle_wall_ms"] is None
