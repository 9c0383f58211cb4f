"""torchrun on two hosts starts a training again; the second host sees no run directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from elastic_rank import ADDRESS_VARIABLE, FAIL, KILL, UNSENT
from fault_ledgers import read_ledgers
from network_training import LEARNER_0, LEARNER_1, NetworkTraining, until
from two_hosts import TwoHosts, lacking

from unilab_metrics.run.summary import read_summary

_LACKING = lacking()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(bool(_LACKING), reason=_LACKING),
]


PATIENCE_S = 120.0
"""Two launchers and two ranks load torch before anything is logged."""


class Elastic(NetworkTraining):
    """Both places are torchrun agents."""

    def __init__(self, hosts: TwoHosts) -> None:
        pytest.importorskip("torch")
        super().__init__(
            hosts,
            program="elastic_rank.py",
            MASTER_ADDR=hosts.a.address,
            MASTER_PORT="29512",
            GLOO_SOCKET_IFNAME="cable",
            OMP_NUM_THREADS="1",
        )
        for host in (hosts.a, hosts.b):
            host.environment[ADDRESS_VARIABLE] = host.address
        hosts.b.call("mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "none", self.run_dir)

    def run_dir_on(self, place: str) -> str:
        return super().run_dir_on(place) if place == LEARNER_0 else ""


@pytest.fixture
def training(short_path: Path) -> Iterator[Elastic]:
    with TwoHosts(short_path) as hosts:
        made = Elastic(hosts)
        yield made
        # Shown with a failure.
        print("".join(map(made.words_of, (LEARNER_0, LEARNER_1))))


def test_the_next_attempt_has_all_frames_of_both_hosts(training: Elastic) -> None:
    training.start(LEARNER_0, LEARNER_1)
    training.goes_on(2, count=10, timeout_s=PATIENCE_S)
    (training.ledgers / FAIL).touch()

    def is_going_on() -> bool:
        second = [u for u in training.updates() if u.attempt == 2 and u.ranks_reported == 2]
        return len(second) >= 20

    until(is_going_on, PATIENCE_S)
    outcome = training.finish()
    assert outcome.faults == []
    ledgers = {ledger.name: ledger for ledger in read_ledgers(training.ledgers)}
    assert set(ledgers) == {f"learner-{rank}-{n}-1" for rank in (0, 1) for n in (1, 2)}
    assert [ledgers[f"learner-{rank}-2-1"].delivered for rank in (0, 1)] == [True, True]
    assert outcome.published == sum(len(ledger.iterations) for ledger in ledgers.values())
    assert training.left_on_b() == []
    summary = read_summary(training.run_dir)
    assert summary is not None
    assert (summary["status"], summary["bus"]["attempt"]) == ("completed", 2)


def test_what_a_killed_rank_of_the_other_host_has_left_comes_before_the_next_attempt(
    training: Elastic,
) -> None:
    training.start(LEARNER_0, LEARNER_1)
    training.goes_on(2, count=10, timeout_s=PATIENCE_S)
    (training.ledgers / KILL).touch()
    until(
        lambda: any(u.attempt == 2 and u.ranks_reported == 2 for u in training.updates()),
        PATIENCE_S,
    )
    outcome = training.finish()
    assert outcome.faults == []
    ledgers = {ledger.name: ledger for ledger in read_ledgers(training.ledgers)}
    last = sorted(ledgers["learner-1-1-1"].iterations)[-UNSENT:]
    alone = [u for u in training.updates() if u.attempt == 1 and u.iteration in last]
    assert [(u.iteration, u.ranks_reported, u.ranks_expected) for u in alone] == [
        (iteration, 1, 2) for iteration in last
    ]
    assert training.left_on_b() == []
