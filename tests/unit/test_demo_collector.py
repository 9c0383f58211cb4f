from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from unilab_metrics.demo import collector as collector_module
from unilab_metrics.demo.collector import Collector, CollectorPort
from unilab_metrics.demo.environment import ACTION_SIZE, OBSERVATION_SIZE, REWARD_WEIGHTS
from unilab_metrics.demo.inference import InferenceQueue, create_inference
from unilab_metrics.demo.ingress import IngressReader, StoppedError, create_ingress
from unilab_metrics.demo.options import parse_options
from unilab_metrics.demo.reward_means import RewardMeans
from unilab_metrics.demo.transitions import TransitionLayout

ENVS = 4
CYCLE = ("learner_action_wait", "env_step", "transition_extract", "replay_write")


class Recorder:
    """Stands in for a publisher; remembers what a collector says, in order."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.reports: list[dict[str, float]] = []
        self.env_steps: list[int | None] = []
        self.gauge_readings: list[dict[str, float]] = []
        self.ticks = 0
        self.episode_steps = 0
        self.episodes = self

    def step(self, rewards: np.ndarray, dones: np.ndarray, timeouts: Any = None) -> None:
        assert rewards.shape == dones.shape == timeouts.shape == (ENVS,)
        self.episode_steps += 1

    def log(
        self,
        values: Mapping[str, Any],
        *,
        iteration: int | None = None,
        env_steps: int | None = None,
    ) -> None:
        assert iteration is None
        self.reports.append(dict(values))
        self.env_steps.append(env_steps)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        if "env_step_" not in name:
            self.begun.append(name)
        yield

    def gauges(self, *, inference: Mapping[str, float]) -> None:
        self.gauge_readings.append(dict(inference))

    def tick(self) -> None:
        self.ticks += 1


class Learner:
    """The other side of the port, driven by the test."""

    def __init__(self, queue: InferenceQueue, ingress: IngressReader) -> None:
        self.queue = queue
        self.ingress = ingress
        self.rows: list[np.ndarray] = []

    def serve(self, ticks: int, *, take: bool = True) -> None:
        for _ in range(ticks):
            tick = self.queue.wait(timeout_s=10.0)
            assert tick is not None
            self.queue.slots.actions(tick)[:] = 0.5
            self.queue.respond(tick, 0)
            if take:
                self.take(tick)

    def take(self, sequences: int) -> None:
        while self.ingress.ring.get("released") < sequences:
            self.ingress.published.wait_for(self._has_rows, timeout_s=0.1)
            self.ingress.take(lambda rows: self.rows.append(rows.copy()))

    def _has_rows(self) -> bool:
        return self.ingress.ring.gauges().occupancy > 0

    def stop(self) -> None:
        self.queue.stop()
        self.ingress.stop()


Run = Callable[..., tuple[Recorder, Learner, threading.Thread]]


@pytest.fixture
def run() -> Iterator[Run]:
    opened: list[tuple[CollectorPort, Learner, threading.Thread]] = []

    def start(*overrides: str) -> tuple[Recorder, Learner, threading.Thread]:
        options = parse_options([f"algo.num_envs={ENVS}", *overrides])
        context = multiprocessing.get_context("spawn")
        client, queue = create_inference(
            context,
            capacity=1,
            num_envs=ENVS,
            observation_size=OBSERVATION_SIZE,
            action_size=ACTION_SIZE,
        )
        width = TransitionLayout(OBSERVATION_SIZE, ACTION_SIZE).width
        writer, reader = create_ingress(context, depth=2, slot_rows=options.slot_rows, width=width)
        port, recorder = CollectorPort(client, writer), Recorder()
        collector = Collector(port, options, 1, recorder)  # type: ignore[arg-type]

        def collect() -> None:
            with pytest.raises(StoppedError):
                collector.run()
            collector.finish()

        thread = threading.Thread(target=collect)
        thread.start()
        learner = Learner(queue, reader)
        opened.append((port, learner, thread))
        return recorder, learner, thread

    yield start
    for port, learner, thread in opened:
        learner.stop()
        thread.join(timeout=10.0)
        port.close()
        for end in (
            learner.queue.requests,
            learner.queue.responses,
            learner.ingress.published,
            learner.ingress.released,
        ):
            end.close()


def finish(learner: Learner, thread: threading.Thread) -> None:
    learner.stop()
    thread.join(timeout=10.0)
    assert not thread.is_alive()


def test_each_tick_goes_through_the_cycle_of_the_document(run: Run) -> None:
    recorder, learner, thread = run("training.collector_metrics_interval=1000")
    learner.serve(3)
    finish(learner, thread)

    cycle = [*CYCLE, "inference_request"]
    assert recorder.begun[: 1 + 3 * 5] == ["inference_request", *cycle * 3]
    assert recorder.ticks == 3
    assert recorder.episode_steps == 3


def test_a_report_carries_the_mean_of_its_ticks(run: Run) -> None:
    recorder, learner, thread = run("training.collector_metrics_interval=2")
    learner.serve(5)
    finish(learner, thread)

    assert len(recorder.reports) == 3  # 2 + 2 + the rest
    assert recorder.env_steps == [2 * ENVS, 4 * ENVS, 5 * ENVS]
    for report in recorder.reports:
        assert set(report) == {f"reward/{term}" for term in REWARD_WEIGHTS}


def test_means_are_over_ticks_of_the_weighted_terms() -> None:
    means = RewardMeans()
    means.add({"alive": 1.0, "fall": -20.0})
    means.add({"alive": 0.5, "fall": 0.0})

    assert means.take() == {"reward/alive": 0.75, "reward/fall": -10.0}
    means.add({"alive": 0.25})
    assert means.take() == {"reward/alive": 0.25}


def test_rows_hold_the_observation_that_was_acted_on_and_where_it_led(run: Run) -> None:
    _, learner, thread = run("env.episode_ticks=3")
    learner.serve(4)
    finish(learner, thread)

    size = OBSERVATION_SIZE
    first, second, third, fourth = learner.rows
    np.testing.assert_array_equal(first[:, -size - 1 : -1], second[:, :size])
    assert (first[:, size] == 0.5).all()
    # The time was up after the third tick: the row keeps the end, the next one starts anew.
    assert not np.array_equal(third[:, -size - 1 : -1], fourth[:, :size])
    assert (third[:, -1] == 0.0).all()


def test_gauges_are_read_while_the_next_request_is_out(run: Run) -> None:
    recorder, learner, thread = run()
    learner.serve(2)
    finish(learner, thread)

    assert set(recorder.gauge_readings[0]) == {
        "queue_depth",
        "action_backlog",
        "in_flight",
        "publication_lag",
    }
    assert recorder.gauge_readings[0]["in_flight"] == 1


def test_a_collector_that_waits_goes_on_reporting_where_it_stands(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector_module, "BLOCKED_REPORT_S", 0.02)
    recorder, learner, thread = run()
    learner.serve(1)
    while recorder.reports[-3:] != [{}, {}, {}]:
        thread.join(timeout=0.01)

    assert recorder.ticks == 1
    assert recorder.gauge_readings[-1]["queue_depth"] == 1
    finish(learner, thread)


def test_a_full_ring_blocks_the_write_and_not_the_reports(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector_module, "BLOCKED_REPORT_S", 0.02)
    recorder, learner, thread = run()
    learner.serve(3, take=False)
    while recorder.ticks < 2 or recorder.reports[-1] != {}:
        thread.join(timeout=0.01)
    assert recorder.ticks == 2
    learner.take(3)
    learner.serve(1)
    learner.take(4)
    finish(learner, thread)

    assert learner.ingress.ring.gauges().backpressure_wait_ms > 0.0
    assert len(learner.rows) == 4
