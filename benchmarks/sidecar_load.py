"""The updates that ``bench_sidecar.py`` shows: a training that only logs, at a given rate.

    python benchmarks/sidecar_load.py RUN_DIR UPDATES_PER_S TAGS [NAMES]

NAMES: what a run has thousands of, ``terms`` of the reward, ``losses``, ``others`` or ``mixed``.
Ends when its standard input does. ``values`` are also what the peer is fed with.
"""

from __future__ import annotations

import math
import random
import select
import sys
import time
from collections.abc import Callable
from pathlib import Path

PHASES = (
    ("Perf/learner_collector_wait_ms", 24.0),
    ("Perf/learner_inference_ms", 9.2),
    ("Perf/learner_collector_release_ms", 0.4),
    ("Perf/learner_replay_batch_wait_ms", 2.1),
    ("Perf/learner_replay_sample_ms", 4.4),
)
COLLECTOR = (
    ("inference_request_ms", 0.3),
    ("learner_action_wait_ms", 71.0),
    ("env_step_ms", 36.0),
    ("env_step_backend_ms", 21.0),
    ("env_step_update_state_ms", 9.0),
    ("env_step_reset_done_ms", 4.0),
    ("transition_extract_ms", 1.1),
    ("replay_write_ms", 8.1),
    ("metrics_publish_ms", 0.2),
)
METRICS = (
    ("Loss/actor", -31.2),
    ("Loss/critic", 1.25),
    ("Loss/temperature", 0.02),
    ("Loss/entropy", 3.1),
    ("Loss/learning_rate", 3e-4),
    ("Policy/mean_std", 0.52),
    ("Policy/temperature", 0.11),
    ("Train/actor_gradient_norm", 0.8),
    ("Train/critic_gradient_norm", 2.2),
    ("Train/target_q_max", 88.0),
    ("Train/target_q_min", -4.0),
    ("Train/reward_scale_std", 1.4),
    ("Train/replay_ingress_depth", 8.0),
    ("Train/replay_ingress_occupancy", 3.0),
    ("Train/replay_ingress_high_water", 6.0),
    ("Train/replay_ingress_backpressure_wait_ms", 12.0),
    ("Train/replay_ingress_dropped_batches", 0.0),
)
OTHERS = (
    ("Perf/learning_time", 0.0801),
    ("Perf/iteration_time", 0.1421),
    ("Perf/total_fps", 34_000.0),
    ("Train/mean_reward", 412.0),
    ("Train/mean_episode_length", 890.0),
    ("Episode/timeout_rate", 0.61),
)
CONSTANT = frozenset({"Train/replay_ingress_depth", "Loss/learning_rate"})
ENVIRONMENTS = 4096


NAMES = {
    "terms": ("reward/term_{:03d}",),
    "losses": ("Loss/head_{:05d}",),
    "others": ("group/metric_{:05d}",),
    "mixed": (
        "Loss/head_{:05d}",
        "reward/term_{:03d}",
        "group/metric_{:05d}",
        "Policy/part_{:05d}",
    ),
}
_MOST_VALUES = 400_000


def typical(count: int, names: str = "terms") -> dict[str, float]:
    """Tags and values as a SAC run has them, filled up to ``count`` with ``NAMES``."""
    made = dict(PHASES) | dict(METRICS) | dict(OTHERS)
    made |= {f"Perf/collector_{key}": value for key, value in COLLECTOR}
    missing = count - len(made)
    forms = NAMES[names]
    made |= {
        forms[number % len(forms)].format(number): 0.01 * (number + 1) for number in range(missing)
    }
    return made


def noisy(count: int, variants: int = 2003, names: str = "terms") -> list[dict[str, float]]:
    """Updates to go round in, whose values drift and scatter: their means over two seconds differ
    from one picture to the next."""
    chance = random.Random(7)
    usual = typical(count, names)
    variants = min(variants, max(_MOST_VALUES // count, 2))
    waves = {tag: (chance.randrange(1, 4), chance.random() * math.tau) for tag in usual}
    made: list[dict[str, float]] = []
    for number in range(variants):
        at = number * math.tau / variants
        made.append(
            {
                tag: value
                if tag in CONSTANT
                else value * (1 + 0.05 * math.sin(turns * at + start) + chance.gauss(0, 0.02))
                for (tag, value), (turns, start) in zip(usual.items(), waves.values(), strict=True)
            }
        )
    return made


def paced(updates_per_s: float, go_on: Callable[[], bool], update: Callable[[int], None]) -> None:
    """Calls ``update`` at an even rate, late ones at once."""
    began_s, number = time.monotonic(), 0
    while number % 16 or go_on():
        wait_s = began_s + number / updates_per_s - time.monotonic()
        if wait_s > 0:
            time.sleep(wait_s)
        update(number)
        number += 1


def main() -> None:
    """Logs until nobody holds the other end of the input."""
    import unilab_metrics as um

    run_dir, updates_per_s, count = Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    updates = noisy(count, names=sys.argv[4] if len(sys.argv) > 4 else "terms")
    with um.init(
        run_dir=run_dir, algorithm="sac", task="go2_joystick_flat", sim_backend="mujoco",
        max_iterations=10_000_000, backends=(), sidecar="off",
    ) as publisher:  # fmt: skip
        paced(
            updates_per_s,
            lambda: not select.select([sys.stdin], [], [], 0)[0],
            lambda number: publisher.log(
                updates[number % len(updates)],
                iteration=number + 1,
                env_steps=(number + 1) * ENVIRONMENTS,
            ),
        )


if __name__ == "__main__":
    main()
