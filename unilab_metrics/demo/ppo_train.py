"""One rank of PPO: builds the parts, runs the learner, reports how it ended."""

from __future__ import annotations

from functools import partial

from unilab_metrics.demo.checkpoint import Checkpoints
from unilab_metrics.demo.environment import ACTION_SIZE, OBSERVATION_SIZE
from unilab_metrics.demo.gradient_sync import GradientSync
from unilab_metrics.demo.metrics import OpenLearner, open_learner
from unilab_metrics.demo.ppo import Ppo
from unilab_metrics.demo.ppo_learner import PpoLearner
from unilab_metrics.demo.ppo_options import PpoOptions
from unilab_metrics.demo.rank import OTHER_ASKED, Rank, run_rank


def train_ppo_rank(options: PpoOptions, *, learner_metrics: OpenLearner = open_learner) -> int:
    """See :func:`unilab_metrics.demo.rank.run_rank`."""
    return run_rank(options, partial(_train, options), learner_metrics=learner_metrics)


def _train(options: PpoOptions, rank: Rank) -> None:
    rank.group.join()
    sync = GradientSync(rank.group.world_size)
    ppo = Ppo(OBSERVATION_SIZE, ACTION_SIZE, options.algo, sync, options.slow)
    checkpoints = Checkpoints.of(rank, options.training.checkpoint_interval)
    learner = PpoLearner(options, rank, ppo=ppo, sync=sync, checkpoints=checkpoints)
    rank.tell("training starts")
    learner.run()
    if ppo.stop_voted:
        rank.stop.ask(OTHER_ASKED)
    if checkpoints is not None:
        checkpoints.write(learner.completed, ppo)
    _summarise(options, rank, learner, checkpoints)


def _summarise(
    options: PpoOptions, rank: Rank, learner: PpoLearner, checkpoints: Checkpoints | None
) -> None:
    """Sums over the ranks, a collective; the figures that a run of PPO leaves."""
    rate = learner.env_steps / learner.wall_s if learner.wall_s else 0.0
    steps, steps_per_s = rank.group.sum(float(learner.env_steps), rate)
    if rank.group.rank != 0:
        return
    ranks, num_envs = rank.group.world_size, options.algo.num_envs
    last = None if checkpoints is None else checkpoints.last
    rank.metrics.set_summary(
        completed_iterations=learner.completed,
        total_env_steps=int(steps),
        run_env_steps=int(steps),
        world_size=ranks,
        num_envs_per_rank=num_envs,
        global_num_envs=num_envs * ranks,
        samples_per_iteration=options.samples_per_iteration * ranks,
        training_throughput_env_steps_per_sec=steps_per_s if learner.completed else None,
        training_wall_time_sec=learner.wall_s,
        last_checkpoint=None if last is None else str(last),
        mean_episode_length=None,
    )
