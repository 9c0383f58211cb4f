"""A rank's collector seen from its learner: spawned, watched, ended."""

from __future__ import annotations

import multiprocessing

from unilab_metrics.demo.collector import CollectorPort, run_collector
from unilab_metrics.demo.environment import ACTION_SIZE, OBSERVATION_SIZE
from unilab_metrics.demo.inference import create_inference
from unilab_metrics.demo.ingress import create_ingress
from unilab_metrics.demo.metrics import OpenCollector
from unilab_metrics.demo.options import DemoOptions
from unilab_metrics.demo.transitions import TransitionLayout

END_TIMEOUT_S = 20.0
"""How long a collector that was told to stop may take; longer than it waits for the bus."""


class CollectorDiedError(RuntimeError):
    """The collector ended before its learner did. ``exit_code`` is negative for a signal."""

    def __init__(self, pid: int | None, exit_code: int | None) -> None:
        super().__init__(f"the collector process (pid {pid}) ended with exit code {exit_code}")
        self.exit_code = exit_code


class CollectorProcess:
    """Spawns the process; ``queue`` and ``ingress`` are the learner's ends to it."""

    def __init__(self, options: DemoOptions, seed: int, open_metrics: OpenCollector) -> None:
        context = multiprocessing.get_context("spawn")
        client, self.queue = create_inference(
            context,
            capacity=options.training.inference_slot_capacity,
            num_envs=options.algo.num_envs,
            observation_size=OBSERVATION_SIZE,
            action_size=ACTION_SIZE,
        )
        writer, self.ingress = create_ingress(
            context,
            depth=options.training.replay_ingress_depth,
            slot_rows=options.slot_rows,
            width=TransitionLayout(OBSERVATION_SIZE, ACTION_SIZE).width,
        )
        port = CollectorPort(client, writer)
        self._process = context.Process(
            target=run_collector, args=(port, options, seed, open_metrics), name="collector"
        )
        self._process.start()
        port.close()

    @property
    def pid(self) -> int | None:
        """Of the process."""
        return self._process.pid

    def died(self) -> CollectorDiedError:
        """The error to raise once a bell has told that the process is gone."""
        self._process.join(timeout=5.0)
        return CollectorDiedError(self._process.pid, self._process.exitcode)

    def stop(self) -> int | None:
        """Tells the collector to stop and waits for its end; kills it after the timeout.

        Returns its exit code. May be repeated.
        """
        self.queue.stop()
        self.ingress.stop()
        self._process.join(timeout=END_TIMEOUT_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        return self._process.exitcode
