"""The network between two hosts fails in every way: nothing is lost, nothing is counted twice,
and no rank waits."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_oracle import Outcome
from network_training import COLLECTOR_1, LEARNER_0, LEARNER_1, NetworkTraining, until
from two_hosts import TwoHosts, lacking

from unilab_metrics.transport.addresses import parse_tcp
from unilab_schema.updates import EventUpdate, Supplement, Update

_LACKING = lacking()
pytestmark = pytest.mark.skipif(bool(_LACKING), reason=_LACKING)

HOLD_PORT = """
import socket, sys
made = socket.socket()
made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
print("waiting", flush=True)
while True:
    try:
        made.bind((sys.argv[1], int(sys.argv[2])))
        break
    except OSError:
        pass
made.listen()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def hosts(short_path: Path) -> Iterator[TwoHosts]:
    with TwoHosts(short_path) as made:
        yield made


def steady(training: NetworkTraining) -> NetworkTraining:
    """Once both hosts have their part in the iterations."""
    training.goes_on(2, count=10)
    return training


def alone_before_the_loss(training: NetworkTraining) -> list[Update]:
    """Iterations without rank 1, in the order of the history."""
    entries = training.entries()
    losses = (
        place
        for place, entry in enumerate(entries)
        if isinstance(entry, EventUpdate) and entry.frame.kind == "lost"
    )
    before = entries[: next(losses)]
    return [one for one in before if isinstance(one, Update) and one.missing_ranks == (1,)]


def is_whole(training: NetworkTraining, outcome: Outcome) -> None:
    """Everything arrived once, and no host keeps anything."""
    assert outcome.faults == []
    assert outcome.published > 50
    assert training.left_on_b() == []
    assert "Traceback" not in "".join(map(training.words_of, training.processes))


@pytest.mark.slow
def test_host_that_was_called_lost_comes_back(hosts: TwoHosts) -> None:
    training = NetworkTraining(hosts, lost_after_s=10.0, straggler_s=1.5)
    training.start()
    steady(training)
    calls = training.logged(LEARNER_1)
    cost_us = training.cost_us(LEARNER_1)
    hosts.cut()
    alone = training.goes_on(1, count=20)
    assert {update.missing_ranks for update in alone} == {(1,)}
    until(lambda: len(training.told("lost")) == 2)
    assert all("has not been heard of for" in text for text in training.told("lost"))
    # Waited for once, and long before it was taken for lost: six waits would take as long as that.
    assert len(alone_before_the_loss(training)) > 10
    until(lambda: training.logged(LEARNER_1) > calls + 50)
    assert training.cost_us(LEARNER_1, calls) < 5 * cost_us + 200
    hosts.mend()
    training.goes_on(2)
    until(lambda: len(training.told("returned")) == 2)
    until(lambda: any(isinstance(entry, Supplement) for entry in training.entries()))
    is_whole(training, training.finish())


@pytest.mark.slow
def test_rank_that_dies_behind_a_cut_cable_is_heard_to_the_end(hosts: TwoHosts) -> None:
    training = NetworkTraining(hosts)
    training.start()
    steady(training)
    hosts.cut()
    time.sleep(0.5)
    training.kill(LEARNER_1)
    hosts.mend()
    # Its collector sends what it left, and says that it is dead.
    until(lambda: len(training.left_on_b()) == 1)
    until(lambda: training.told("lost"))
    (lost,) = training.told("lost")
    assert "learner of rank 1" in lost
    assert "ended without close()" in lost
    training.goes_on(1)
    training.start(LEARNER_1)
    training.goes_on(2)
    is_whole(training, training.finish())


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [1.0, 8.0])
def test_outage_delays_what_it_does_not_lose(hosts: TwoHosts, seconds: float) -> None:
    training = NetworkTraining(hosts, lost_after_s=120.0, straggler_s=60.0)
    training.start()
    steady(training)
    calls = training.logged(LEARNER_1)
    hosts.cut()
    time.sleep(seconds)
    # On a busy machine this takes longer; a rank that waits for the network would never come there.
    until(lambda: training.logged(LEARNER_1) - calls > 20 * seconds)
    hosts.mend()
    training.goes_on(2)
    assert training.told("lost") == []
    # Shorter than the deadline, so every iteration has waited for both.
    ranks = [update.ranks_reported for update in training.updates()]
    assert set(ranks[ranks.index(2) :]) == {2}
    is_whole(training, training.finish())


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_thousands_of_iterations_without_a_host_get_its_values_when_it_is_back(
    hosts: TwoHosts,
) -> None:
    training = NetworkTraining(hosts, interval_s=0.005, lost_after_s=4.0, straggler_s=2.0)
    training.start()
    steady(training)
    hosts.cut()
    # More than may be open at a time.
    training.goes_on(1, count=2000)
    hosts.mend()
    training.goes_on(2)
    is_whole(training, training.finish())


@pytest.mark.slow
@pytest.mark.parametrize("deaf", ["a", "b"])
def test_half_of_a_cable_is_no_cable(hosts: TwoHosts, deaf: str) -> None:
    training = NetworkTraining(hosts, lost_after_s=4.0, straggler_s=2.0)
    training.start()
    steady(training)
    hosts.cut(from_a=deaf == "b", from_b=deaf == "a")
    # Also if only the answers get lost: heartbeats end the connection.
    until(lambda: training.told("lost"))
    hosts.mend()
    training.goes_on(2)
    is_whole(training, training.finish())


@pytest.mark.slow
def test_host_without_power_says_no_goodbye_and_joins_again(hosts: TwoHosts) -> None:
    training = NetworkTraining(hosts, lost_after_s=150.0, straggler_s=3.0)
    training.start()
    steady(training)
    hosts.cut()
    hosts.b.kill_all()
    for place in (LEARNER_1, COLLECTOR_1):
        del training.processes[place]
    until(lambda: hosts.connections() == 0)
    training.goes_on(1)
    hosts.mend()
    training.start(LEARNER_1, COLLECTOR_1)
    # It need not wait until the dead ones count as lost: it says so itself.
    training.goes_on(2, timeout_s=60.0)
    assert len(training.told("lost")) == 2
    is_whole(training, training.finish())


@pytest.mark.slow
def test_connections_that_are_reset_anywhere_lose_nothing(hosts: TwoHosts) -> None:
    training = NetworkTraining(hosts, interval_s=0.005)
    training.start()
    steady(training)
    for _ in range(20):
        hosts.reset_connections()
        time.sleep(0.15)
    is_whole(training, training.finish())


@pytest.mark.slow
def test_aggregator_that_dies_behind_a_cut_cable(hosts: TwoHosts) -> None:
    training = NetworkTraining(hosts)
    training.start()
    steady(training)
    hosts.cut()
    time.sleep(0.5)
    first = training.aggregator()
    os.kill(first, signal.SIGKILL)
    until(lambda: training.aggregator() not in (0, first))
    time.sleep(0.5)
    hosts.mend()
    training.goes_on(2)
    is_whole(training, training.finish())


@pytest.mark.slow
def test_aggregator_whose_port_is_taken_is_found_at_another_one(hosts: TwoHosts) -> None:
    training = NetworkTraining(hosts)
    training.start()
    steady(training)
    bus = training.bus()
    assert bus is not None
    port = parse_tcp(bus.tcp_ingest).port
    thief = hosts.a.start(
        sys.executable, "-c", HOLD_PORT, hosts.a.address, str(port), stdin=-1, stdout=-1
    )
    # It must be quicker than the next aggregator.
    assert thief.stdout is not None
    assert thief.stdout.readline() == b"waiting\n"
    first = training.aggregator()
    os.kill(first, signal.SIGKILL)
    assert thief.stdout.readline() == b"held\n"
    until(lambda: training.aggregator() not in (0, first))
    training.goes_on(2)
    moved = training.bus()
    assert moved is not None
    assert parse_tcp(moved.tcp_ingest).port != port
    log = (training.run_dir / "bus" / "aggregator.log").read_text()
    assert f"port {port} of {hosts.a.address} is taken" in log
    thief.kill()
    is_whole(training, training.finish())


@pytest.mark.slow
def test_host_that_stays_away_keeps_its_frames_for_recover(hosts: TwoHosts) -> None:
    training = NetworkTraining(hosts, lost_after_s=3.0, straggler_s=1.0)
    training.start()
    steady(training)
    hosts.cut()
    until(lambda: training.told("lost"))
    training.kill(LEARNER_1)
    training.kill(COLLECTOR_1)
    (training.ledgers / "stop-learners").touch()
    assert training.processes.pop(LEARNER_0).wait(60) == 0
    until(lambda: training.aggregator() == 0)
    hosts.mend()
    assert len(training.left_on_b()) == 2
    said = hosts.b.call(
        sys.executable, "-m", "unilab_metrics", "recover", training.run_dir, timeout_s=60.0
    )
    assert "learner of rank 1" in said or "rank 1" in said, said
    assert training.left_on_b() == []
