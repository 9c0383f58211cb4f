"""A training over two hosts: everything that is published on either arrives once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from network_training import NetworkTraining
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
    assert bus is not None and bus.tcp_ingest.startswith(f"tcp://{hosts.a.address}:")
    assert {update.ranks_expected for update in sealed} == {2}
    outcome = training.finish()
    assert outcome.faults == []
    assert outcome.published > 50
    assert training.left_on_b() == []
