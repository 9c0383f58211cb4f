"""Wall clocks that are wrong, or jump: iterations decide the order, the skew is shown."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from case_runs import ended, scalars, updates
from real_runs import until
from steered_ranks import SteeredRank, iterations, told

from unilab_metrics.run.summary import read_summary
from unilab_metrics.subscribe.subscriber import Subscriber
from unilab_schema.control import SourceStatus

TAG = "Loss/value"


def await_skews(run_dir: Path, shifts_s: tuple[float, ...]) -> None:
    """Until every viewer is told of each rank that it lives and how far its clock is away. A message
    that is slow on a busy machine makes a clock look late, until the next ones have come."""

    def is_told(subscriber: Subscriber) -> bool:
        subscriber.poll(100)
        head = subscriber.head
        ranks: dict[int, SourceStatus] = {}
        if head is not None:
            ranks = {status.key.rank: status for status in head.sources}
        return len(ranks) == len(shifts_s) and all(
            abs(status.clock_skew_s - shifts_s[rank]) < 1.0
            and status.state == "live"
            and status.age_s < 5.0
            for rank, status in ranks.items()
        )

    with Subscriber.attach(run_dir) as subscriber:
        until(lambda: is_told(subscriber))


@pytest.mark.parametrize(
    "shifts_s", [(0.0, 90.0), pytest.param((3600.0, -3600.0), marks=pytest.mark.slow)]
)
def test_a_skewed_clock_is_measured_and_changes_nothing_else(
    shifts_s: tuple[float, float], tmp_path: Path
) -> None:
    """BR-53. The wall time of a point is that of rank 0's frame."""
    run_dir = tmp_path / "run"
    began_s = time.time()
    with (
        SteeredRank(run_dir, 0, 2, SHIFT_S=str(shifts_s[0])) as zero,
        SteeredRank(run_dir, 1, 2, SHIFT_S=str(shifts_s[1])) as one,
    ):
        # Whoever is ahead in time comes first, whoever logs first is behind.
        one.ready()
        zero.ready()
        one.log(0, 9)
        zero.log(0, 9)
        until(lambda: len(iterations(run_dir)) == 10, 30.0)
        ended_s = time.time()
        await_skews(run_dir, shifts_s)
        one.tell("close 30")
        assert zero.end().startswith("True")
    ended(run_dir)
    assert [(u.iteration, u.ranks_reported) for u, _ in updates(run_dir)] == [
        (k, 2) for k in range(10)
    ]
    for update in iterations(run_dir):
        assert began_s <= update.unix_ns / 1e9 - shifts_s[0] <= ended_s
        assert 0.0 <= update.elapsed_s <= ended_s - began_s
    assert scalars(run_dir)[TAG] == [(k, 0.5) for k in range(10)]
    assert told(run_dir, "lost") == told(run_dir, "warning") == []
    summary = read_summary(run_dir)
    assert summary is not None
    assert summary["status"] == "completed"


def test_a_wall_clock_that_is_set_back_makes_nothing_negative(tmp_path: Path) -> None:
    """BR-69."""
    run_dir = tmp_path / "run"
    with SteeredRank(run_dir, 0, 1) as zero:
        zero.ready()
        before_s = time.monotonic()
        zero.do("exec publisher.start_training()")
        began_s = time.monotonic()
        iteration = 0
        for shift_s in (0.0, -0.24, -3600.0, -3600.0, 7200.0):
            zero.do(f"shift {shift_s}")
            # Two of no length at all, as far as a clock can tell.
            zero.do("exec publisher.start_iteration()")
            last_s = time.monotonic()
            zero.log(iteration, iteration + 1)
            iteration += 2
        least_s, most_s = last_s - began_s, time.monotonic() - before_s
        assert zero.do("eval publisher.dropped") == "{}"
        assert zero.do("eval publisher.errors") == "[]"
        assert zero.end().startswith("True")
    ended(run_dir)
    found = iterations(run_dir)
    assert [update.iteration for update in found] == list(range(10))
    elapsed = [update.elapsed_s for update in found]
    assert elapsed == sorted(elapsed)
    assert elapsed[0] >= 0.0
    assert least_s <= elapsed[-1] <= most_s
    for _, values in updates(run_dir):
        assert values.get("Perf/iteration_time", 0.0) >= 0.0
    assert [step for step, _ in scalars(run_dir)[TAG]] == list(range(10))
    summary = read_summary(run_dir)
    assert summary is not None
    assert summary["wall_time_sec"] >= 0.0
    assert least_s <= summary["training_wall_time_sec"] <= most_s


@pytest.mark.slow
def test_equal_stamps_keep_the_order_of_the_calls(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with SteeredRank(run_dir, 0, 1) as zero:
        zero.ready()
        stopped = "import unilab_metrics.publish.spool_records as s; s.time_ns = lambda: 10**18; "
        stopped += "s.monotonic_ns = lambda now=s.monotonic_ns(): now"
        zero.do(f"exec {stopped}")
        zero.log(0, 19)
        for number in range(3):
            zero.do(f"exec publisher.point('p', {number}, 0)")
        assert zero.end().startswith("True")
    ended(run_dir)
    assert {update.unix_ns for update in iterations(run_dir)} == {10**18}
    assert [step for step, _ in scalars(run_dir)[TAG]] == list(range(20))
    assert [value for _, value in scalars(run_dir)["p"]] == [0.0, 1.0, 2.0]
