"""What a rank knows of its throughput when the training ends, and the figures of all ranks."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from unilab_metrics.demo.policy_server import InferenceCost
from unilab_metrics.demo.process_group import ProcessGroup

TAIL_ITERATIONS = 100
"""Window of the throughput at the end of a run."""


class _Iteration(NamedTuple):
    env_steps: int
    rows: int
    wall_s: float


class Throughput:
    """The last iterations of a rank; owned by the learner's main thread."""

    def __init__(self) -> None:
        self._tail: deque[_Iteration] = deque(maxlen=TAIL_ITERATIONS)
        self._env_steps: int | None = None

    def start(self, env_steps: int) -> None:
        """Counts environment steps from here: the warm-up is no part of it."""
        self._env_steps = env_steps

    def add(self, env_steps: int, rows: int, wall_s: float) -> None:
        """An iteration that ended with the rank's counter at ``env_steps``."""
        before = env_steps if self._env_steps is None else self._env_steps
        self._tail.append(_Iteration(env_steps - before, rows, wall_s))
        self._env_steps = env_steps

    def summary(
        self, group: ProcessGroup, *, total_env_steps: int, inference: InferenceCost
    ) -> dict[str, Any]:
        """Fields of ``run_summary.json``: sums of rates and counters, means of durations.

        A collective: every rank must call.
        """
        last = self._tail[-1] if self._tail else None
        tail_wall_s = sum(iteration.wall_s for iteration in self._tail)
        tail_steps = sum(iteration.env_steps for iteration in self._tail)
        sums = group.sum(
            float(total_env_steps),
            tail_steps / tail_wall_s if tail_wall_s else 0.0,
            last.env_steps / last.wall_s if last else 0.0,
            last.rows / last.wall_s if last else 0.0,
            last.wall_s * 1e3 if last else 0.0,
            *(duration_ns / 1e6 for duration_ns in inference),
        )
        steps, tail_rate, rate, rows_rate, wall_ms, total, h2d, forward, d2h = sums
        ranks = group.world_size
        return {
            "total_env_steps": int(steps),
            "tail_env_steps_per_sec": tail_rate if last else None,
            "tail_iteration_count": len(self._tail),
            "tail_window_iterations": TAIL_ITERATIONS,
            "final_env_steps_per_sec": rate if last else None,
            "final_learner_replay_rows_per_sec": rows_rate if last else None,
            "final_cycle_wall_ms": wall_ms / ranks if last else None,
            "final_inference_ms": total / ranks,
            "final_inference_h2d_ms": h2d / ranks,
            "final_inference_forward_ms": forward / ranks,
            "final_inference_d2h_ms": d2h / ranks,
        }
