"""BR-47: a mean over unequal ranks weighs samples, in float64."""

from __future__ import annotations

from pathlib import Path

import pytest
from case_runs import ended, run, scalars, updates

# Several ranks in one process: each publisher is a source of its own all the same.
TRAINING = """
import sys, time
import unilab_metrics as um

samples = [int(word) for word in sys.argv[2].split(",")]
world = len(samples)
run_dir = sys.argv[1]
ranks = [
    um.init(algorithm="ppo", task="Toy", run_dir=run_dir, rank=rank, world_size=world)
    for rank in range(world)
]
for iteration in range(3):
    for publisher, count in zip(ranks, samples):
        publisher.log(
            {
                "ones": um.Mean(1.0 * count, count),
                "ranks": um.Mean(float(publisher.rank) * count, count),
                "plain": float(publisher.rank),
            },
            iteration=iteration,
        )
# Another rank than 0 waits 10 s only for an aggregator that has not come up yet.
while not all(publisher._shipper.bus_seen for publisher in ranks):
    time.sleep(0.01)
for publisher in reversed(ranks):
    assert publisher.close(90), publisher.errors
"""


@pytest.mark.parametrize(
    "samples",
    [
        [3] * 12 + [2] * 4,
        pytest.param([5, 4], marks=pytest.mark.slow),
        pytest.param([0, 7, 1], marks=pytest.mark.slow),
    ],
)
def test_every_sample_weighs_the_same(samples: list[int], tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    run(TRAINING, run_dir, ",".join(map(str, samples)))
    ended(run_dir)
    total = sum(samples)
    weighted = sum(rank * count for rank, count in enumerate(samples)) / total
    for update, values in updates(run_dir):
        assert update.ranks_reported == len(samples)
        assert values == {
            "ones": 1.0,
            "ranks": pytest.approx(weighted, rel=1e-12),
            "plain": pytest.approx((len(samples) - 1) / 2, rel=1e-12),
        }
    assert scalars(run_dir)["ones"] == [(n, 1.0) for n in range(3)]
