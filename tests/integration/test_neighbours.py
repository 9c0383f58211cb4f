"""Who ends on a node without the aggregator tells it who else is there."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from spooled import spooled_publisher

from unilab_metrics.publish import neighbours as module
from unilab_metrics.publish.neighbours import INTERVAL_NS, Neighbours
from unilab_schema.control import Neighbour


def test_live_processes_beside_us_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, other, dead = (spooled_publisher(tmp_path, rank=rank) for rank in (1, 2, 3))
    # A process cannot ask for its own locks.
    spools = [Path(publisher.identity.spool_path) for publisher in (own, other, dead)]
    ended = {spools[2]}
    monkeypatch.setattr(module.lease, "is_free", lambda path: path.parent in ended)
    (tmp_path / "launch" / "link").symlink_to(spools[1])
    (tmp_path / "launch" / "file").touch()

    beside = Neighbours(spools[0])
    assert (beside.tell(), beside.are_told) == ((), False)
    beside.look(INTERVAL_NS)
    identity = other.identity
    assert beside.tell() == (Neighbour(identity.incarnation, identity.key, identity.pid),)
    assert beside.are_told
    ended.add(spools[1])
    beside.look(INTERVAL_NS + 1)
    assert len(beside.tell()) == 1
    beside.look(2 * INTERVAL_NS)
    assert beside.tell() == ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for publisher in (own, other, dead):
            publisher.close(0)
