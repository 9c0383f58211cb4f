"""Processes that stand still for a while, and one that does not know that it was replaced."""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import time
from pathlib import Path

import pytest
from fault_ledgers import read_ledgers
from fault_oracle import compare
from fault_player import finish
from fault_runs import complaints, until_sidecar_is_current
from fault_training import FaultTraining

from unilab_metrics.errors import ExitCode
from unilab_metrics.transport.rendezvous import aggregator_lease

pytestmark = pytest.mark.timeout(240)

SLACK_NS = 1_000_000
"""On a busy machine the median of a call of 30 µs may well be twice that."""


def stopped(training: FaultTraining, place: str, seconds: float) -> tuple[int, int]:
    """Let a process stand still; from when to when on the monotonic clock."""
    began_ns = time.monotonic_ns()
    (pid,) = training.send(signal.SIGSTOP, place)
    training.go_on(seconds)
    ended_ns = time.monotonic_ns()
    os.kill(pid, signal.SIGCONT)
    return began_ns, ended_ns


def since(training: FaultTraining, began_ns: int) -> list[int]:
    """What each ``log()`` of rank 0 has cost it since some time, in ns."""
    return [
        after - before
        for ledger in read_ledgers(training.ledgers)
        if ledger.place == "learner-0"
        for before, after in ledger.spans_ns.values()
        if before > began_ns
    ]


def check_stopped_aggregator(folder: Path, seconds: float) -> None:
    with FaultTraining(folder) as training:
        training.start_attempt()
        training.until(lambda: training.pid("writer"))
        quiet_ns = time.monotonic_ns()
        training.until(lambda: len(since(training, quiet_ns)) > 50)
        before = since(training, quiet_ns)
        began_ns = time.monotonic_ns()
        (pid,) = training.send(signal.SIGSTOP, "aggregator")
        try:
            assert training.command("aggregate") == ExitCode.REFUSED
            training.go_on(seconds - (time.monotonic_ns() - began_ns) / 1e9)
            # It trains on, however much of the machine others have.
            training.until(lambda: len(since(training, began_ns)) > 20 * seconds)
        finally:
            # After 15 s rank 0 takes it for hung and has another one.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        meanwhile = since(training, began_ns)
        assert statistics.median(meanwhile) < 2 * statistics.median(before) + SLACK_NS
        training.go_on(0.5)
        finish(training)
        assert complaints(training, compare(training)) == []


@pytest.mark.slow
def test_a_stopped_aggregator_costs_the_training_nothing(tmp_path: Path) -> None:
    check_stopped_aggregator(tmp_path / "t", 2.0)


@pytest.mark.slow
def test_an_aggregator_stopped_for_ten_seconds_costs_the_training_nothing(tmp_path: Path) -> None:
    check_stopped_aggregator(tmp_path / "t", 10.0)


@pytest.mark.slow
def test_a_stopped_writer_and_a_stopped_sidecar_go_on(tmp_path: Path) -> None:
    with FaultTraining(tmp_path / "t", sidecar=True) as training:
        training.start_attempt()
        training.until(lambda: training.pid("writer"))
        training.go_on(0.3)
        (writer,) = training.send(signal.SIGSTOP, "writer")
        stopped(training, "sidecar", 1.5)
        os.kill(writer, signal.SIGCONT)
        until_sidecar_is_current(training)
        finish(training)
        assert complaints(training, compare(training)) == []


@pytest.mark.slow
@pytest.mark.parametrize("point", ["aggregator.wal@20", "aggregator.history@20"])
def test_what_a_replaced_aggregator_appends_counts_nowhere(tmp_path: Path, point: str) -> None:
    """It stands still in the middle of a commit, somebody takes its lease away and starts
    another one, and then it goes on."""
    with FaultTraining(tmp_path / "t", points={"helpers": f"{point}:stop"}) as training:
        training.start_attempt()
        training.until(lambda: not training.lacking())
        zombie = training.pid("aggregator")
        assert zombie is not None
        lease = aggregator_lease(training.run_dir)
        lease.rename(lease.with_name("broken.lease"))
        with training.start_command("aggregate") as successor:
            training.until(lambda: training.pid("aggregator") == successor.pid)
            training.go_on(0.5)
            os.kill(zombie, signal.SIGCONT)
            training.go_on(1.5)
            assert successor.poll() is None
            assert training.pid("aggregator") == successor.pid
            finish(training)
            assert successor.wait(60) == ExitCode.OK
        assert complaints(training, compare(training)) == []
