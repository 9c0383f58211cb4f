"""Trainings on two hosts that end before their ranks have met: the second host sees no run
directory, and is let in when rank 0 closes already."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_oracle import compare
from network_training import LEARNER_0, LEARNER_1, NetworkTraining
from short_rank import COLLECT_VARIABLE, SLOW_VARIABLE
from two_hosts import Host, TwoHosts, lacking

from unilab_metrics.config import STORE_VARIABLE
from unilab_metrics.run.summary import read_summary

_LACKING = lacking()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(_LACKING), reason=_LACKING),
]

STORE = "store-0"


class Short(NetworkTraining):
    """One iteration; the store is a process of its own, as torchrun's agent is."""

    def __init__(self, hosts: TwoHosts, slow_s: float) -> None:
        pytest.importorskip("torch")
        super().__init__(
            hosts,
            program="short_rank.py",
            MASTER_ADDR=hosts.a.address,
            MASTER_PORT="29513",
            TORCHELASTIC_USE_AGENT_STORE="True",
            TORCHELASTIC_RESTART_COUNT="0",
            GLOO_SOCKET_IFNAME="cable",
            OMP_NUM_THREADS="1",
        )
        for host in (hosts.a, hosts.b):
            host.environment[SLOW_VARIABLE] = str(slow_s)
        hosts.b.call("mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "none", self.run_dir)

    def run_dir_on(self, place: str) -> str:
        return super().run_dir_on(place) if place == LEARNER_0 else ""

    def host_of(self, place: str) -> Host:
        return self.hosts.a if place == STORE else super().host_of(place)


@pytest.fixture
def hosts(short_path: Path) -> Iterator[TwoHosts]:
    with TwoHosts(short_path) as made:
        yield made


@pytest.mark.parametrize("slow_s", [0.0, 1.5])
def test_rank_0_waits_for_the_rank_that_is_still_on_its_way(hosts: TwoHosts, slow_s: float) -> None:
    training = Short(hosts, slow_s)
    training.start(STORE, LEARNER_0, LEARNER_1)
    outcome = training.finish()
    words = "".join(map(training.words_of, (LEARNER_0, LEARNER_1)))
    assert outcome.faults == [], words
    assert outcome.published == 2
    assert training.left_on_b() == []
    assert "Traceback" not in words
    assert "recvValue" not in words
    assert "unsent" not in words
    assert [update.ranks_reported for update in training.updates()] == [2]
    summary = read_summary(training.run_dir)
    assert summary is not None
    assert summary["status"] == "completed"


def test_a_collector_of_the_other_host_that_is_behind_its_rank_is_waited_for(
    hosts: TwoHosts,
) -> None:
    training = Short(hosts, 0.0)
    hosts.b.environment[COLLECT_VARIABLE] = "1"
    training.start(STORE, LEARNER_0, LEARNER_1)
    outcome = training.finish()
    words = "".join(map(training.words_of, (LEARNER_0, LEARNER_1)))
    assert outcome.faults == [], words
    assert outcome.published == 2 + 3
    assert training.left_on_b() == []
    assert "unsent" not in words


def test_a_rank_that_cannot_be_heard_is_named_on_both_sides_and_recovered_from_a_copy(
    hosts: TwoHosts,
) -> None:
    training = Short(hosts, 0.0)
    hosts.b.environment[STORE_VARIABLE] = "none"
    training.start(STORE, LEARNER_0, LEARNER_1)
    outcome = training.finish()
    assert outcome.faults == ["1 lost: Ledger/learner-1-1-3: [0]"]
    summary = read_summary(training.run_dir)
    assert summary is not None
    absent = "1 of 2 expected ranks were not heard (1); what they have logged waits in their spools"
    assert any(warning.startswith(absent) for warning in summary["bus"]["warnings"])
    (spool,) = training.left_on_b()
    words = training.words_of(LEARNER_1)
    assert f"3 unsent: these frames wait in {spool} (no aggregator has answered)" in words
    assert f"--spool COPY` with a COPY of {spool.parent}" in words

    copied = hosts.shared / "copy" / spool.parent.name
    shutil.copytree(spool.parent, copied)
    program = "from unilab_metrics.cli import main; main()"
    recover = [sys.executable, "-c", program, "recover", str(training.run_dir)]
    hosts.a.call(*recover, "--spool", str(copied), timeout_s=60)
    assert compare(training).faults == []
