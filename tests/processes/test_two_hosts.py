"""A training over two hosts: everything that is published on either arrives once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from follower import Follower
from network_training import NetworkTraining, until
from real_runs import fastest_s
from two_hosts import TwoHosts, lacking

_LACKING = lacking()
pytestmark = pytest.mark.skipif(bool(_LACKING), reason=_LACKING)


@pytest.fixture
def hosts(short_path: Path) -> Iterator[TwoHosts]:
    with TwoHosts(short_path) as made:
        yield made


def test_every_frame_of_both_hosts_arrives_once(hosts: TwoHosts) -> None:
    training = NetworkTraining(hosts)
    training.start()
    sealed = training.goes_on(2, count=20)
    bus = training.bus()
    assert bus is not None
    assert bus.tcp_ingest.startswith(f"tcp://{hosts.a.address}:")
    assert {update.ranks_expected for update in sealed} == {2}
    outcome = training.finish()
    assert outcome.faults == []
    assert outcome.published > 50
    assert training.left_on_b() == []


@pytest.mark.slow
def test_viewers_on_the_other_host_survive_an_outage_without_a_gap(hosts: TwoHosts) -> None:
    training = NetworkTraining(hosts)
    training.start()
    training.goes_on(2, count=20)
    bus = training.bus()
    assert bus is not None
    key = hosts.b.directory / "watch.key"
    key.write_bytes((training.run_dir / "bus" / "keys" / "watch.key").read_bytes())
    key.chmod(0o600)
    places = {"directory": [training.run_dir], "address": [bus.tcp_announce, key]}
    viewers: dict[str, Follower] = {}
    numbers = count()

    def joined_s() -> float:
        number = next(numbers)
        for name, arguments in places.items():
            log = hosts.b.directory / f"{name}-{number}.log"
            with log.open("wb") as output:
                hosts.b.start(*Follower.command(*arguments), stdout=output)
            viewers[name] = Follower(log)
        until(lambda: all(viewer.said().first_s for viewer in viewers.values()))
        return max(viewer.said().first_s for viewer in viewers.values())

    assert fastest_s(joined_s, 5.0) < 5.0
    hosts.cut()
    until(lambda: not any(viewer.said().connected for viewer in viewers.values()))
    # Only the one without the shared directory is cut off from the run's data.
    until(lambda: viewers["address"].said().age_s > 4.0)
    hosts.mend()
    newest = training.goes_on(2)[-1].iteration
    until(lambda: all(viewer.is_current(newest) for viewer in viewers.values()))
    until(lambda: viewers["address"].said().connected)
    assert training.finish().faults == []
    until(
        lambda: all(
            viewer.is_current(training.updates()[-1].iteration) for viewer in viewers.values()
        )
    )


@pytest.mark.slow
def test_attach_on_the_other_host_prints_the_run(hosts: TwoHosts) -> None:
    training = NetworkTraining(hosts)
    training.start()
    training.goes_on(2, count=20)
    bus = training.bus()
    assert bus is not None
    key = training.run_dir / "bus" / "keys" / "watch.key"
    attach = [sys.executable, "-m", "unilab_metrics", "attach", "--lines"]
    logs = [hosts.b.directory / "directory.log", hosts.b.directory / "address.log"]
    wheres = [[training.run_dir], [bus.tcp_announce, "--key", key]]
    for log, where in zip(logs, wheres, strict=True):
        with log.open("wb") as output:
            hosts.b.start(*attach, *where, stdout=output)
    until(lambda: all(b"iter " in log.read_bytes() for log in logs))
    assert training.finish().faults == []
    until(lambda: all(b"\nrun ended: completed" in log.read_bytes() for log in logs))
