"""Two hosts without a shared file system and without a key copied by hand: the second one finds
the run through the store of torch.distributed."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from network_training import LEARNER_0, LEARNER_1, NetworkTraining, until
from two_hosts import TwoHosts, lacking

from unilab_metrics.transport import keys
from unilab_schema.updates import PointsUpdate

_LACKING = lacking()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(_LACKING), reason=_LACKING),
]


INTERVAL_S = 0.05


class Apart(NetworkTraining):
    """Rank 1 is told nothing of the run, and its host has another directory of the same name."""

    def __init__(self, hosts: TwoHosts) -> None:
        pytest.importorskip("torch")
        super().__init__(
            hosts,
            interval_s=INTERVAL_S,
            program="store_rank.py",
            MASTER_ADDR=hosts.a.address,
            MASTER_PORT="29511",
            GLOO_SOCKET_IFNAME="cable",
            OMP_NUM_THREADS="1",
        )
        hosts.b.call("mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "none", self.run_dir)

    def run_dir_on(self, place: str) -> str:
        return super().run_dir_on(place) if place == LEARNER_0 else ""

    def hears_the_collector(self) -> None:
        """Once more has come from it."""
        known = self._points()
        until(lambda: self._points() > known)

    def _points(self) -> int:
        points = [entry for entry in self.entries() if isinstance(entry, PointsUpdate)]
        return sum(update.source.role == "collector" for update in points)

    def allowed(self) -> str:
        return keys.allowed_path(self.run_dir / "bus").read_text()


@pytest.fixture
def training(short_path: Path) -> Iterator[Apart]:
    with TwoHosts(short_path) as hosts:
        made = Apart(hosts)
        yield made
        # Shown with a failure.
        print("".join(map(made.words_of, (LEARNER_0, LEARNER_1))))


@pytest.fixture
def containers(short_path: Path) -> Iterator[Apart]:
    """The same in two containers of one host."""
    with TwoHosts(short_path, own_kernels=False) as hosts:
        made = Apart(hosts)
        yield made
        print("".join(map(made.words_of, (LEARNER_0, LEARNER_1))))


def finish(training: Apart, *, was_cut: bool = False) -> None:
    outcome = training.finish()
    assert outcome.faults == [], [training.words_of(place) for place in training.processes]
    assert outcome.published > 50
    assert training.left_on_b() == []
    words = "".join(map(training.words_of, training.processes))
    assert "Traceback" not in words
    # A question that is on its way as the cable is cut cannot be taken back; nobody is asked again.
    assert words.count("recvValue failed") <= was_cut, words
    assert "key_refused" not in words, words
    assert list(training.hosts.b.directory.glob("**/bus.json")) == []


def test_rank_is_found_and_let_in_through_the_store_alone(training: Apart) -> None:
    training.start(LEARNER_0, LEARNER_1)
    training.goes_on(2, count=20)
    lines = [line for line in training.allowed().splitlines() if "torch" in line]
    assert len(lines) == 1
    assert " ranks=1 " in lines[0]
    pairs = list(training.hosts.b.directory.glob("**/rank-1.key"))
    assert [stat.S_IMODE(path.stat().st_mode) for path in pairs] == [0o600]
    secret = keys.read_client(pairs[0], "publish").secret
    for path in (training.run_dir / "bus").rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes()
    for name in ("publish.key", "watch.key", "server.key"):
        of_run = keys.key_directory(training.run_dir / "bus") / name
        assert of_run.read_text() != pairs[0].read_text()
    training.hears_the_collector()
    finish(training)


def test_an_aggregator_that_comes_back_elsewhere_is_found_through_the_store(
    training: Apart,
) -> None:
    training.start(LEARNER_0, LEARNER_1)
    training.goes_on(2, count=10)
    before = training.bus()
    assert before is not None
    # Without its memory of ports the next one takes others.
    (training.run_dir / "bus" / "ports.json").unlink()
    os.kill(training.aggregator(), signal.SIGKILL)
    until(lambda: (bus := training.bus()) is not None and bus.pid != before.pid)
    after = training.bus()
    assert after is not None
    assert after.tcp_ingest != before.tcp_ingest
    training.goes_on(2, count=10)
    training.hears_the_collector()
    finish(training)


def test_a_cut_cable_costs_no_frame_and_no_stack_trace(training: Apart) -> None:
    training.start(LEARNER_0, LEARNER_1)
    training.goes_on(2, count=10)
    cost_us, calls = training.cost_us(LEARNER_1), training.logged(LEARNER_1)
    training.hosts.cut()
    # Longer than the shipper takes to look for the aggregator elsewhere.
    until(lambda: training.logged(LEARNER_1) > calls + 8.0 / INTERVAL_S)
    assert training.cost_us(LEARNER_1, calls) < 5 * cost_us + 500
    training.hosts.mend()
    training.goes_on(2, count=10)
    training.hears_the_collector()
    finish(training, was_cut=True)


def test_what_a_dead_rank_has_left_is_sent_by_its_collector(training: Apart) -> None:
    training.start(LEARNER_0, LEARNER_1)
    training.goes_on(2, count=10)
    training.hears_the_collector()
    training.hosts.cut()
    calls = training.logged(LEARNER_1)
    until(lambda: training.logged(LEARNER_1) > calls + 20)
    training.kill(LEARNER_1)
    training.hosts.mend()
    training.goes_on(1, count=10)
    training.hears_the_collector()
    finish(training, was_cut=True)


def test_two_containers_of_one_host_meet_although_their_boot_id_is_one(containers: Apart) -> None:
    containers.start(LEARNER_0, LEARNER_1)
    containers.goes_on(2, count=10)
    containers.hears_the_collector()
    containers.hosts.cut()
    calls = containers.logged(LEARNER_1)
    until(lambda: containers.logged(LEARNER_1) > calls + 20)
    containers.kill(LEARNER_1)
    containers.hosts.mend()
    containers.goes_on(1, count=10)
    containers.hears_the_collector()
    finish(containers, was_cut=True)
