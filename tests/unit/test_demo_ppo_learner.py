from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from unilab_metrics.demo.environment import ACTION_SIZE, OBSERVATION_SIZE
from unilab_metrics.demo.gradient_sync import GradientSync
from unilab_metrics.demo.ppo import Ppo
from unilab_metrics.demo.ppo_learner import PpoLearner
from unilab_metrics.demo.ppo_options import PpoOptions, parse_ppo_options
from unilab_metrics.demo.process_group import ProcessGroup
from unilab_metrics.demo.rank import Rank
from unilab_metrics.demo.stop import StopRequest
from unilab_metrics.publish.episodes import EpisodeStatistics

SMALL = ("algo.num_envs=4", "algo.num_mini_batches=2", "algo.num_steps_per_env=3")


class Remembered:
    """A publisher that keeps what it is given."""

    def __init__(self) -> None:
        self.episodes = EpisodeStatistics()
        self.logged: list[tuple[int | None, int | None, dict[str, Any]]] = []
        self.phases: list[str] = []
        self.started = 0

    def log(
        self,
        values: Mapping[str, Any],
        *,
        iteration: int | None = None,
        env_steps: int | None = None,
    ) -> None:
        self.logged.append((iteration, env_steps, dict(values)))

    def phase(self, name: str) -> AbstractContextManager[object]:
        self.phases.append(name)
        return nullcontext()

    def start_training(self, env_steps: int = 0) -> None:
        self.started += 1

    def start_iteration(self) -> None:
        pass


def learner(*words: str) -> tuple[PpoLearner, Remembered, Ppo, StopRequest]:
    options: PpoOptions = parse_ppo_options([*SMALL, *words])
    metrics, stop = Remembered(), StopRequest()
    rank = Rank(ProcessGroup(0, 1), metrics, None, stop, 5)  # type: ignore[arg-type]
    sync = GradientSync(1)
    ppo = Ppo(OBSERVATION_SIZE, ACTION_SIZE, options.algo, sync)
    return PpoLearner(options, rank, ppo=ppo, sync=sync, checkpoints=None), metrics, ppo, stop


def test_iterations_count_from_0_and_steps_of_all_environments_add_up() -> None:
    made, metrics, _, _ = learner("algo.max_iterations=3")
    made.run()
    assert [(iteration, steps) for iteration, steps, _ in metrics.logged] == [
        (0, 12), (1, 24), (2, 36)]  # fmt: skip
    assert metrics.started == 1
    assert metrics.phases == ["collection", "learning"] * 3
    assert (made.completed, made.env_steps) == (3, 36)
    for _, _, values in metrics.logged:
        assert {"Loss/surrogate", "Policy/mean_std", "reward/alive"} <= set(values)
        assert "Perf/dp_gradient_sync_ms_per_rank" not in values


def test_who_is_asked_to_stop_ends_after_the_iteration() -> None:
    made, metrics, ppo, stop = learner("algo.max_iterations=1000")
    stop.ask("enough")
    made.run()
    assert ppo.stop_voted
    assert len(metrics.logged) == made.completed == 1


def rewards_with(gamma: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Of ticks that all end an episode because its time is up."""
    made, _, _, _ = learner(f"algo.gamma={gamma}", "env.episode_ticks=1", "algo.max_iterations=1")
    made.run()
    return made._rollout.rewards, made._rollout.dones


def test_what_a_timeout_cuts_off_is_still_worth_its_value() -> None:
    alone, dones = rewards_with(0.0)
    assert dones.eq(1.0).all()
    half, most = rewards_with(0.5)[0] - alone, rewards_with(0.9)[0] - alone
    assert most.abs().min() > 0.0
    torch.testing.assert_close(most / 0.9, half / 0.5, rtol=1e-3, atol=1e-6)
