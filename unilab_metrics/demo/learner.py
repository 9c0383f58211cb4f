"""The learner's loop: serve ticks, take a batch, update, log. One per rank."""

# torch leaves many of its own parameters unannotated:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import time
from typing import Any

import torch

from unilab_metrics.demo.checkpoint import Checkpoints
from unilab_metrics.demo.collector_process import CollectorProcess
from unilab_metrics.demo.environment import ACTION_SIZE
from unilab_metrics.demo.figures import Throughput
from unilab_metrics.demo.gradient_sync import GradientSync
from unilab_metrics.demo.metrics import Metrics
from unilab_metrics.demo.options import DemoOptions
from unilab_metrics.demo.policy_server import (
    InferenceCost,
    Policy,
    PolicyServer,
    Timing,
    UniformPolicy,
    Untimed,
)
from unilab_metrics.demo.replay import as_batch
from unilab_metrics.demo.replay_sync import ReplaySync
from unilab_metrics.demo.sac import UPDATE_TAGS, Sac
from unilab_metrics.demo.shared import PeerLostError
from unilab_metrics.demo.stop import StopRequest

WAIT_SLICE_S = 0.5
"""Longest wait between two looks at the clock."""
STALE_AFTER_S = 120.0
"""A live collector that has not moved for so long is an error."""


class StaleTickError(RuntimeError):
    """The collector lives, but nothing came from it for ``STALE_AFTER_S``."""


class Learner:
    """Owned by the rank's main thread. The parts come ready-made from ``train.py``."""

    def __init__(
        self,
        options: DemoOptions,
        *,
        rank: int,
        metrics: Metrics,
        sac: Sac,
        sync: GradientSync,
        collector: CollectorProcess,
        replay: ReplaySync,
        checkpoints: Checkpoints | None,
        stop: StopRequest,
        seed: int,
    ) -> None:
        self._options = options
        self._rank = rank
        self._metrics = metrics
        self._sac = sac
        self._sync = sync
        self._collector = collector
        self._replay = replay
        self._checkpoints = checkpoints
        self._stop = stop
        self._server = PolicyServer(collector.queue, seed)
        self._generator = torch.Generator().manual_seed(seed + 1)
        self.throughput = Throughput()
        """Of the iterations so far."""
        self.iteration = 0
        """Completed iterations."""

    def warm_up(self) -> None:
        """Fills the replay with random transitions; ends early when asked to stop."""
        target = self._options.algo.learning_starts
        policy, untimed = UniformPolicy(ACTION_SIZE), Untimed()
        reported = -1
        while self._replay.rows < target and not self._stop.check():
            self._serve_tick(policy, untimed)
            fill = min(self._replay.rows / target, 1.0)
            if self._rank == 0 and int(fill * 4) > reported:
                reported = int(fill * 4)
                self._metrics.event(
                    "status",
                    f"warm-up: {self._replay.rows} of {target} replay rows",
                    fill=fill,
                )

    def run(self) -> None:
        """Iterations 1 to ``algo.max_iterations``, or until the ranks have voted to stop."""
        self._replay.prefetch()
        env_steps = self._collector.ingress.env_steps()
        self._metrics.start_training(env_steps)
        self.throughput.start(env_steps)
        while self.iteration < self._options.algo.max_iterations and not self._sac.stop_voted:
            self._iterate(self.iteration + 1)
            self.iteration += 1
            if self._checkpoints is not None:
                self._checkpoints.after(self.iteration, self._sac)

    @property
    def last_inference(self) -> InferenceCost:
        """Of the last tick that this rank has served."""
        return self._server.last

    def _iterate(self, iteration: int) -> None:
        metrics, options = self._metrics, self._options
        metrics.start_iteration()
        began = time.perf_counter()
        if self._stop.check():
            self._sac.vote_to_stop()
        with metrics.phase("collector_wait"):
            for _ in range(options.training.env_steps_per_sync):
                self._serve_tick(self._sac, metrics)
        with metrics.phase("replay_batch_wait"):
            self._await_batch()
        with metrics.phase("replay_sample"):
            rows = self._replay.take()
            self._replay.prefetch()
            batches = rows.split(options.algo.batch_size)
            layout = self._replay.layout
        with metrics.phase("learning"):
            updates = [
                self._sac.update(as_batch(batch, layout), self._generator) for batch in batches
            ]
            means = torch.stack(updates).mean(dim=0).tolist()
            self._server.policy_version += 1
        values: dict[str, Any] = dict(zip(UPDATE_TAGS, means, strict=True))
        values["Policy/temperature"] = self._sac.temperature
        values["Loss/learning_rate"] = self._sac.learning_rate
        self._add_gauges(values)
        wall_s = time.perf_counter() - began
        values["Terminal/replay_rows_per_s"] = len(rows) / wall_s
        env_steps = self._collector.ingress.env_steps()
        self.throughput.add(env_steps, len(rows), wall_s)
        metrics.log(values, iteration=iteration, env_steps=env_steps)

    def _serve_tick(self, policy: Policy, timing: Timing) -> None:
        deadline = time.monotonic() + STALE_AFTER_S
        try:
            while (tick := self._server.wait(WAIT_SLICE_S)) is None:
                if time.monotonic() > deadline:
                    raise StaleTickError(f"no inference request for {STALE_AFTER_S:.0f} s")
            self._server.act(tick, policy, timing)
        except PeerLostError:
            raise self._collector.died() from None

    def _await_batch(self) -> None:
        deadline = time.monotonic() + STALE_AFTER_S
        while not self._replay.wait_gathered(WAIT_SLICE_S):
            if time.monotonic() > deadline:
                raise StaleTickError(f"no replay batch for {STALE_AFTER_S:.0f} s")
        if self._replay.failure is not None:
            raise RuntimeError("the replay thread failed") from self._replay.failure

    def _add_gauges(self, values: dict[str, Any]) -> None:
        ingress = self._collector.ingress.ring.gauges()
        values["Train/replay_ingress_depth"] = ingress.depth
        values["Train/replay_ingress_occupancy"] = ingress.occupancy
        values["Train/replay_ingress_high_water"] = ingress.high_water
        values["Train/replay_ingress_backpressure_wait_ms"] = ingress.backpressure_wait_ms
        values["Train/replay_ingress_dropped_batches"] = ingress.dropped_batches
        if self._replay.submit_ns is not None:
            self._metrics.add_phase_ns("replay_ingress_h2d_submit", self._replay.submit_ns)
        cost = self._sync.cost()
        if cost is not None:
            values["Perf/dp_gradient_sync_ms_per_rank"] = cost.duration_ms
            values["Perf/dp_gradient_sync_calls_per_rank"] = cost.calls
        algo = self._options.algo
        values["Terminal/buffer_size"] = self._replay.rows
        values["Terminal/buffer_capacity"] = algo.buffer_size
        values["Terminal/num_envs"] = algo.num_envs
        values["Terminal/batch_per_rank"] = algo.batch_size
        values["Terminal/mps"] = 0
