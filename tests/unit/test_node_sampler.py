"""The sampler of a node: newest values at once, whatever a driver does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from fake_nvml import FakeNvml

from unilab_metrics.aggregate.folding.entries import BusNews
from unilab_metrics.aggregate.options import NodeSample
from unilab_metrics.aggregate.receiving.bus_meter import (
    INTERVAL_NS,
    NODE_TOLD_NS,
    BusMeter,
    CommitTimes,
)
from unilab_metrics.node.gpus import GpuReader, NoGpuError
from unilab_metrics.node.sampler import MAX_AGE_NS, NodeSampler

TAG = "Node/0/cpu_percent"


class Steady:
    def __init__(self, tag: str = TAG) -> None:
        self.tag = tag
        self.calls = 0

    def __call__(self) -> dict[str, float]:
        self.calls += 1
        return {self.tag: float(self.calls)}

    def close(self) -> None:
        pass


def until(is_true: Callable[[], bool]) -> None:
    end = time.monotonic() + 10.0
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_a_driver_that_never_answers_keeps_nothing_else_waiting() -> None:
    nvml = FakeNvml()
    sampler = NodeSampler([Steady, lambda: GpuReader(None, lambda: nvml)], interval_s=0.002)
    try:
        until(lambda: len(sampler.newest(time.monotonic_ns()).values) > 1)
        nvml.hangs.set()
        before = sampler.newest(time.monotonic_ns())
        until(lambda: sampler.newest(time.monotonic_ns()).values[TAG] > before.values[TAG] + 3)
        late = sampler.newest(time.monotonic_ns())
        assert late.mono_ns > before.mono_ns
        assert not sampler.close(0.01)
        # The GPU's last words are as old as the hang: they age out before the newer ones do.
        assert any("gpu0" in tag for tag in late.values)
        at = late.mono_ns + MAX_AGE_NS
        assert set(sampler.newest(at).values) == {TAG}
        assert sampler.newest(at + 10**10) == (0, {})
    finally:
        nvml.let_go.set()
        until(lambda: sampler.close(1.0))


def test_what_is_not_there_is_asked_for_once_and_said_nowhere(
    capfd: pytest.CaptureFixture[str],
) -> None:
    asked: list[int] = []

    def none() -> Steady:
        asked.append(1)
        raise NoGpuError("none")

    sampler = NodeSampler([none, Steady], interval_s=0.002, nothing=(NoGpuError,))
    until(lambda: bool(sampler.newest(time.monotonic_ns()).values))
    assert sampler.close(5.0)
    assert asked == [1]
    assert capfd.readouterr() == ("", "")


def test_a_reader_that_fails_is_let_go_and_its_values_age_out() -> None:
    closed = threading.Event()

    class Failing(Steady):
        def __call__(self) -> dict[str, float]:
            if self.calls:
                raise OSError("gone")
            return super().__call__()

        def close(self) -> None:
            closed.set()

    sampler = NodeSampler([Failing], interval_s=0.002)
    assert closed.wait(10.0)
    assert sampler.newest(time.monotonic_ns()).values == {TAG: 1.0}
    assert sampler.close(5.0)


def test_each_sample_joins_one_update_and_heads_fill_the_gaps_between_long_iterations() -> None:
    sample = NodeSample(5, {TAG: 43.0})
    meter = BusMeter({}, CommitTimes(), lambda: 0, lambda _now: sample)
    assert meter.untold_node(1) == {TAG: 43.0}
    assert meter.news(1) == BusNews(node={TAG: 43.0})
    assert meter.untold_node(2) == {}
    # The same sample again is no news, a new one is.
    assert meter.news(1 + INTERVAL_NS) == BusNews()
    sample = NodeSample(6, {TAG: 44.0})
    assert meter.news(1 + 2 * INTERVAL_NS) == BusNews(node={TAG: 44.0})
    told = 1 + 2 * INTERVAL_NS
    assert meter.untold_node(told + NODE_TOLD_NS - 1) == {}
    assert meter.untold_node(told + NODE_TOLD_NS) == {TAG: 44.0}
