"""One rank of SAC: builds the parts, runs the learner, reports how it ended."""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial

from unilab_metrics.demo.checkpoint import Checkpoints
from unilab_metrics.demo.collector_process import CollectorDiedError, CollectorProcess
from unilab_metrics.demo.environment import ACTION_SIZE, OBSERVATION_SIZE
from unilab_metrics.demo.gradient_sync import GradientSync
from unilab_metrics.demo.learner import Learner
from unilab_metrics.demo.metrics import (
    Metrics,
    OpenCollector,
    OpenLearner,
    open_collector,
    open_learner,
)
from unilab_metrics.demo.options import DemoOptions
from unilab_metrics.demo.process_group import ProcessGroup
from unilab_metrics.demo.rank import OTHER_ASKED, Rank, run_rank
from unilab_metrics.demo.replay import ReplayRing
from unilab_metrics.demo.replay_sync import ReplaySync
from unilab_metrics.demo.sac import Sac
from unilab_metrics.demo.stop import StopRequest
from unilab_metrics.demo.transitions import TransitionLayout


def train_rank(
    options: DemoOptions,
    *,
    learner_metrics: OpenLearner = open_learner,
    collector_metrics: OpenCollector = open_collector,
) -> int:
    """See :func:`unilab_metrics.demo.rank.run_rank`."""
    return run_rank(
        options,
        partial(_train, options, collector_metrics),
        learner_metrics=learner_metrics,
        statuses={CollectorDiedError: "collector_died"},
    )


def _train(options: DemoOptions, collector_metrics: OpenCollector, rank: Rank) -> None:
    algo, group, metrics = options.algo, rank.group, rank.metrics
    layout = TransitionLayout(OBSERVATION_SIZE, ACTION_SIZE)
    with ExitStack() as ending:
        collector = CollectorProcess(options, rank.seed, collector_metrics)
        ending.callback(collector.stop)
        replay = ReplaySync(
            ReplayRing(algo.buffer_size, layout),
            collector.ingress,
            batch_rows=algo.batch_size * algo.updates_per_step,
            seed=rank.seed + 3,
            slow=options.slow,
            slots_per_iteration=options.slots_per_iteration,
        )
        replay.start()
        ending.callback(replay.close)
        ending.callback(collector.stop)  # before the replay, which takes its last rows

        group.join()
        sync = GradientSync(group.world_size)
        sac = Sac(OBSERVATION_SIZE, ACTION_SIZE, algo, sync, options.slow)
        checkpoints = Checkpoints.of(rank, options.training.checkpoint_interval)
        learner = Learner(
            options,
            rank=group.rank,
            metrics=metrics,
            sac=sac,
            sync=sync,
            collector=collector,
            replay=replay,
            checkpoints=checkpoints,
            stop=rank.stop,
            seed=rank.seed + 1,
        )
        learner.warm_up()
        if not _agree_to_start(group, rank.stop):
            return
        rank.tell("warm-up done, training starts")
        wall_s = _timed(learner)
        if sac.stop_voted:
            rank.stop.ask(OTHER_ASKED)
        exit_code = collector.stop()
        replay.close()
        if exit_code != 0:
            raise CollectorDiedError(collector.pid, exit_code)
        if checkpoints is not None:
            checkpoints.write(learner.iteration, sac)
        _summarise(learner, group, metrics, collector, checkpoints, wall_s)


def _agree_to_start(group: ProcessGroup, stop: StopRequest) -> bool:
    (votes,) = group.sum(float(stop.check() is not None))
    if votes:
        stop.ask(OTHER_ASKED)
    return not votes


def _timed(learner: Learner) -> float:
    began = time.monotonic()
    learner.run()
    return time.monotonic() - began


def _summarise(
    learner: Learner,
    group: ProcessGroup,
    metrics: Metrics,
    collector: CollectorProcess,
    checkpoints: Checkpoints | None,
    wall_s: float,
) -> None:
    figures = learner.throughput.summary(
        group,
        total_env_steps=collector.ingress.env_steps(),
        inference=learner.last_inference,
    )
    if group.rank != 0:
        return
    last = None if checkpoints is None else checkpoints.last
    metrics.set_summary(
        completed_iterations=learner.iteration,
        training_wall_time_sec=wall_s,
        last_checkpoint=None if last is None else str(last),
        **figures,
    )
