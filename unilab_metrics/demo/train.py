"""One rank of the training: builds the parts, runs the learner, reports how it ended."""

from __future__ import annotations

import time
import traceback
from contextlib import ExitStack
from pathlib import Path

import torch

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
from unilab_metrics.demo.process_group import ProcessGroup, rank_from_environment
from unilab_metrics.demo.replay import ReplayRing
from unilab_metrics.demo.replay_sync import ReplaySync
from unilab_metrics.demo.sac import Sac
from unilab_metrics.demo.stop import StopRequest
from unilab_metrics.demo.transitions import TransitionLayout
from unilab_metrics.errors import ExitCode

SEEDS_PER_RANK = 10
"""Each rank has random streams of its own: environment, inference, updates, replay."""


def train_rank(
    options: DemoOptions,
    *,
    learner_metrics: OpenLearner = open_learner,
    collector_metrics: OpenCollector = open_collector,
) -> int:
    """Trains one rank to its end and returns the exit code of its process.

    Rank and world size come from ``RANK`` and ``WORLD_SIZE``. Takes over SIGINT and SIGTERM,
    so call it from the main thread.
    """
    stop = StopRequest()
    stop.install()
    torch.set_num_threads(1)
    group = ProcessGroup(*rank_from_environment())
    metrics, run_dir = learner_metrics(options)
    status, exit_code = "completed", ExitCode.OK
    try:
        _train(options, group, metrics, run_dir, collector_metrics, stop)
        if stop.reason is not None:
            status, exit_code = "failed", ExitCode.INTERRUPTED
            _tell(metrics, group.rank, stop.reason)
            metrics.set_summary(error=stop.reason)
    except CollectorDiedError as error:
        status, exit_code = "collector_died", ExitCode.UNEXPECTED
        _tell(metrics, group.rank, str(error))
        metrics.set_summary(error_type=type(error).__name__, error=str(error))
    except BaseException as error:  # noqa: BLE001 (the bus must hear of it)
        status, exit_code = "failed", ExitCode.UNEXPECTED
        traceback.print_exc()
        _tell(metrics, group.rank, f"failed: {type(error).__name__}: {error}")
        metrics.set_summary(error_type=type(error).__name__, error=str(error))
    group.leave()
    metrics.close(status=status)
    return exit_code


def _train(
    options: DemoOptions,
    group: ProcessGroup,
    metrics: Metrics,
    run_dir: Path | None,
    collector_metrics: OpenCollector,
    stop: StopRequest,
) -> None:
    algo = options.algo
    layout = TransitionLayout(OBSERVATION_SIZE, ACTION_SIZE)
    seed = algo.seed + group.rank * SEEDS_PER_RANK
    with ExitStack() as ending:
        collector = CollectorProcess(options, seed, collector_metrics)
        ending.callback(collector.stop)
        replay = ReplaySync(
            ReplayRing(algo.buffer_size, layout),
            collector.ingress,
            batch_rows=algo.batch_size * algo.updates_per_step,
            seed=seed + 3,
            slow=options.slow,
            slots_per_iteration=options.slots_per_iteration,
        )
        replay.start()
        ending.callback(replay.close)
        ending.callback(collector.stop)  # before the replay, which takes its last rows

        group.join()
        sync = GradientSync(group.world_size)
        sac = Sac(OBSERVATION_SIZE, ACTION_SIZE, algo, sync, options.slow)
        checkpoints = None
        if group.rank == 0 and run_dir is not None:
            interval = options.training.checkpoint_interval
            checkpoints = Checkpoints(run_dir, interval, metrics)
        learner = Learner(
            options,
            rank=group.rank,
            metrics=metrics,
            sac=sac,
            sync=sync,
            collector=collector,
            replay=replay,
            checkpoints=checkpoints,
            stop=stop,
            seed=seed + 1,
        )
        learner.warm_up()
        if not _agree_to_start(group, stop):
            return
        _tell(metrics, group.rank, "warm-up done, training starts")
        wall_s = _timed(learner)
        if sac.stop_voted:
            stop.ask("another rank was asked to stop")
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
        stop.ask("another rank was asked to stop")
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


def _tell(metrics: Metrics, rank: int, text: str) -> None:
    line = f"rank {rank}: {text}"
    print(line, flush=True)  # noqa: T201 (goes to console.log)
    metrics.event("status", line)
