"""BR-05 and BR-07: what does not depend on the number of ranks, and what is a sum of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from case_runs import Points, ended, finish, scalars, start
from real_runs import only_run, until

RANK = """
import sys
import unilab_metrics as um

logs, algorithm, first = sys.argv[1], sys.argv[2], int(sys.argv[3])
publisher = um.init(algorithm=algorithm, task="Toy", sim_backend="numpy", log_root=logs)
wall_s = (0.5, float(sys.argv[4]))[publisher.rank]
for n in range(50):
    publisher.log(
        {"Loss/value": 1.0, "Perf/total_fps": 384 / wall_s, "Perf/iteration_time": wall_s},
        iteration=first + n,
        env_steps=384 * (n + 1),
    )
# Another rank than 0 waits 10 s only for an aggregator that has not come up yet.
sys.stdin.readline()
assert publisher.close(90), (publisher.errors, publisher.unsent)
"""


def points_of(
    logs: Path, ranks: int, algorithm: str, first: int, second_wall_s: float = 0.5
) -> Points:
    environment = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29501"}
    arguments = (logs, algorithm, str(first), str(second_wall_s))
    started = [start(RANK, *arguments, RANK=str(rank), **environment) for rank in range(ranks)]
    until(lambda: list(logs.glob("*/*/*/bus/bus.json")))
    run_dir = only_run(logs)
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in started:
        finish(process)
    ended(run_dir)
    return scalars(run_dir)


@pytest.mark.slow
def test_on_policy_points_are_as_dense_on_one_rank_as_on_two(tmp_path: Path) -> None:
    for ranks in (1, 2):
        points = points_of(tmp_path / str(ranks), ranks, "ppo", 0)
        assert set(points) == {"Loss/value", "Perf/total_fps", "Perf/iteration_time"}
        for tag in points:
            assert [step for step, _ in points[tag]] == list(range(50)), (ranks, tag)


def test_off_policy_points_are_as_dense_and_steps_are_sums(tmp_path: Path) -> None:
    for ranks in (1, 2):
        points = points_of(tmp_path / str(ranks), ranks, "sac", 1)
        steps = [384 * ranks * (n + 1) for n in range(50)]
        iterations = [(step, float(n)) for n, step in enumerate(steps, 1)]
        assert points["Train/iteration"] == iterations
        assert points["Loss/value"] == [(step, 1.0) for step in steps]


@pytest.mark.slow
def test_throughput_is_the_sum_of_the_ranks_rates_and_walls_are_means(tmp_path: Path) -> None:
    even = points_of(tmp_path / "even", 2, "sac", 1)
    assert {value for _, value in even["Perf/total_fps"]} == {1536.0}
    assert even["Perf/total_fps"][0][0] == 768
    uneven = points_of(tmp_path / "uneven", 2, "sac", 1, 1.0)
    assert {value for _, value in uneven["Perf/total_fps"]} == {1152.0}
    assert {value for _, value in uneven["Perf/iteration_time"]} == {0.75}
