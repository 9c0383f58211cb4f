"""A rank whose values anybody can compute: ``python known_rank.py RUN_DIR RANK ITERATIONS``.

Open mode, so that one process may log what learner, collector and runner share out elsewhere.
Logs the last ``LAST`` iterations once there is a file ``go`` beside the run directory, and those
before them slowly until then.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

WORLD = 2
WALL_S = 0.025
LAST, SLOW = 10, 100
"""So many of the last iterations wait for ``go``: each for as long as it takes, or for a while."""
SLOW_S = 0.3
WAIT_S = 60.0
SHORT = 7
"""Every so many iterations the phases of rank 0 overlap by far."""

PHASES = {
    "Perf/learner_collector_wait_ms": 3.0,
    "Perf/learner_inference_ms": 2.0,
    "Perf/learner_collector_release_ms": 0.2,
    "Perf/learner_replay_sample_ms": 1.0,
    "Perf/learning_time": 0.012,
}
RANK_0_PHASE = "Perf/learner_replay_batch_wait_ms"
COLLECTOR = {
    "Perf/collector_inference_request_ms": 0.3,
    "Perf/collector_learner_action_wait_ms": 12.0,
    "Perf/collector_env_step_ms": 6.0,
    "Perf/collector_env_step_backend_ms": 5.0,
    "Perf/collector_transition_extract_ms": 0.5,
    "Perf/collector_replay_write_ms": 1.6,
    "Perf/collector_metrics_publish_ms": 0.01,
}
OTHERS = {
    "Train/mean_reward": -40.0,
    "Train/mean_episode_length": 120.0,
    "Episode/timeout_rate": 0.4,
    "reward/upright": 0.7,
    "reward/effort": -0.2,
    "Loss/actor": -11.0,
    "Loss/critic": 2.5,
    "Loss/entropy": 1.1,
    "Loss/temperature": -0.03,
    "Loss/learning_rate": 3e-4,
    "Policy/mean_std": 0.8,
    "Policy/temperature": 0.2,
    "Train/actor_gradient_norm": 1.9,
    "Train/critic_gradient_norm": 6.4,
    "Train/target_q_max": 80.0,
    "Train/target_q_min": -14.0,
    "Train/reward_scale_std": 1.3,
    "Train/replay_ingress_depth": 4.0,
    "Train/replay_ingress_occupancy": 1.5,
    "Train/replay_ingress_high_water": 3.0,
    "Train/replay_ingress_backpressure_wait_ms": 70.0,
    "Train/replay_ingress_dropped_batches": 2.0,
    "Perf/total_fps": 4000.0,
    "Terminal/replay_rows_per_s": 30_000.0,
    "Terminal/buffer_size": 5000.0,
    "Terminal/buffer_capacity": 90_000.0,
    "Terminal/num_envs": 32.0,
    "Terminal/batch_per_rank": 256.0,
}


@cache
def known_values(rank: int, iteration: int) -> Mapping[str, float]:
    """What the rank logs for an iteration; the same in every run."""
    chance = random.Random(1000 * rank + iteration)
    base = PHASES | COLLECTOR | OTHERS | {"Perf/iteration_time": 0.024 + 0.01 * rank}
    if rank == 0:
        base[RANK_0_PHASE] = 2.4
    values = {tag: usual * chance.uniform(0.6, 1.4) for tag, usual in base.items()}
    if rank == 0 and iteration % SHORT == 0:
        values["Perf/learning_time"] += 0.2
    return values


def known_env_steps(iteration: int) -> int:
    """A rank's own counter."""
    return 32 * iteration


def main() -> None:
    import unilab_metrics as um

    run_dir, rank, iterations = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    with um.init(
        algorithm="sac",
        task="known",
        run_dir=run_dir,
        rank=rank,
        world_size=WORLD,
        max_iterations=iterations,
    ) as publisher:
        # No rank has to be waited for, and none is far ahead of the aggregator.
        go = run_dir.parent / "go"
        (run_dir.parent / f"ready-{rank}").touch()
        others = [run_dir.parent / f"ready-{other}" for other in range(WORLD)]
        wait(lambda: all(path.exists() for path in (*others, run_dir / "bus" / "bus.json")))
        for k in range(1, iterations + 1):
            time.sleep(WALL_S)
            if k > iterations - LAST:
                wait(go.exists)
            elif k > iterations - SLOW and not go.exists():
                time.sleep(SLOW_S)
            publisher.log(dict(known_values(rank, k)), iteration=k, env_steps=known_env_steps(k))
        assert publisher.close(), publisher.errors


def wait(until: Callable[[], bool]) -> None:
    """For up to ``WAIT_S``."""
    deadline_s = time.monotonic() + WAIT_S
    while not until():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


if __name__ == "__main__":
    main()
