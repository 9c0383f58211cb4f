"""The collector process of a rank: steps the environment and publishes its own metrics."""

from __future__ import annotations

import signal
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unilab_metrics.demo.environment import CartReachEnv, StepResult
from unilab_metrics.demo.inference import InferenceClient
from unilab_metrics.demo.ingress import IngressWriter, StoppedError
from unilab_metrics.demo.metrics import Metrics, OpenCollector
from unilab_metrics.demo.options import DemoOptions
from unilab_metrics.demo.reward_means import RewardMeans
from unilab_metrics.demo.shared import PeerLostError
from unilab_metrics.demo.transitions import pack

Array = NDArray[np.float32]

BLOCKED_REPORT_S = 1.0
"""A collector that waits longer reports its gauges, so that one sees where it stands."""
DELIVERY_S = 5.0
"""How long the end waits for the bus; what is left then is delivered from the spool."""


@dataclass(frozen=True)
class CollectorPort:
    """What a learner hands to its collector when it spawns it."""

    inference: InferenceClient
    ingress: IngressWriter

    def close(self) -> None:
        """Closes the ends in the process that keeps the others."""
        self.inference.requests.close()
        self.inference.responses.close()
        self.ingress.published.close()
        self.ingress.released.close()


def run_collector(
    port: CollectorPort, options: DemoOptions, seed: int, open_metrics: OpenCollector
) -> None:
    """Entry of the process. Ends when its learner says so or is gone."""
    # A terminal's Ctrl+C reaches the whole group; the learner decides when to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    metrics = open_metrics(options)
    collector = Collector(port, options, seed, metrics)
    try:
        collector.run()
    except StoppedError:
        collector.finish()
        metrics.close(timeout_s=DELIVERY_S, status="completed")
    except PeerLostError:
        metrics.event("status", "the learner of this collector is gone")
        metrics.close(timeout_s=DELIVERY_S, status="failed")
    except BaseException:
        metrics.close(timeout_s=DELIVERY_S, status="failed")
        raise


class Collector:
    """The loop; owned by the process's main thread."""

    def __init__(
        self, port: CollectorPort, options: DemoOptions, seed: int, metrics: Metrics
    ) -> None:
        self._inference = port.inference
        self._ingress = port.ingress
        self._metrics = metrics
        self._interval = options.training.collector_metrics_interval
        self._slow = options.slow
        self._env = CartReachEnv(options.algo.num_envs, options.env.episode_ticks, seed)
        self._rewards = RewardMeans()

    def run(self) -> None:
        """Ticks until :class:`StoppedError` or :class:`PeerLostError` is raised."""
        metrics = self._metrics
        observations = self._env.reset()
        self._request(observations, np.ones(self._env.num_envs, dtype=np.bool_))
        while True:
            actions = self._await_actions()
            with metrics.phase("env_step"):
                result = self._env.step(actions, metrics.phase)
            with metrics.phase("transition_extract"):
                rows = pack(observations, actions, result)
                dones = result.terminated | result.timeouts
            self._write(rows)
            observations = result.observations
            self._request(observations, dones)
            self._count(result, dones)
            if self._rewards.ticks >= self._interval:
                self._report()

    def finish(self) -> None:
        """Reports the ticks that no report has carried yet."""
        if self._rewards.ticks:
            self._report()

    def _request(self, observations: Array, dones: NDArray[np.bool_]) -> None:
        with self._metrics.phase("inference_request"):
            self._inference.request(observations, dones)

    def _await_actions(self) -> Array:
        while True:
            with self._metrics.phase("learner_action_wait"):
                response = self._inference.wait(BLOCKED_REPORT_S)
            if response is not None:
                if response.policy_version > 0:
                    self._slow_down()
                return response.actions
            self._report_blocked()

    def _slow_down(self) -> None:
        """The warm-up, which no policy serves, is over: whoever wants to see a slow part does
        not want to wait for it."""
        self._env.wait_s = self._slow.wait_s("env")
        self._ingress.wait_s = self._slow.wait_s("ingress")

    def _write(self, rows: Array) -> None:
        while True:
            with self._metrics.phase("replay_write"):
                if self._ingress.reserve(BLOCKED_REPORT_S):
                    self._ingress.write(rows)
                    return
            self._report_blocked()

    def _count(self, result: StepResult, dones: NDArray[np.bool_]) -> None:
        self._metrics.episodes.step(result.rewards, dones, result.timeouts)
        self._metrics.gauges(inference=self._inference.slots.gauges()._asdict())
        self._metrics.tick()
        self._rewards.add(result.terms)

    def _report(self) -> None:
        with self._metrics.phase("metrics_publish"):
            self._metrics.log(self._rewards.take(), env_steps=self._env_steps())

    def _report_blocked(self) -> None:
        self._metrics.gauges(inference=self._inference.slots.gauges()._asdict())
        self._metrics.log({}, env_steps=self._env_steps())

    def _env_steps(self) -> int:
        ring = self._ingress.ring
        return ring.get("published") * ring.slot_rows
