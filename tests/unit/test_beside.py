"""Processes of other nodes of which only a neighbour has told, when all others are gone."""

from __future__ import annotations

from sources_on_paper import PaperRun

from unilab_metrics.aggregate.leaving.beside import WAIT_NS, Beside
from unilab_metrics.aggregate.receiving.peers import Peer
from unilab_schema.control import Batch, Neighbour
from unilab_schema.identity import SourceKey

COLLECTOR = Neighbour(b"c" * 16, SourceKey(1, "collector", 2), 77)


def told(*neighbours: Neighbour) -> tuple[Beside, set[bytes], Peer]:
    """Rank 1 ends; who is known; its connection."""
    paper = PaperRun()
    paper.join(1, learners=2)
    peer, known = Peer(), set[bytes]()
    source = paper.state.data.sources[0]
    peer.take(Batch(source.identity.incarnation, 0, 0, 0, neighbours=neighbours), source)
    return Beside({0: peer}, known.__contains__), known, peer


def test_one_is_waited_for_once_and_not_for_long() -> None:
    beside, _, _ = told(COLLECTOR)
    assert beside.ranks(1000) == {1}
    assert beside.ranks(1000 + WAIT_NS) == {1}
    assert beside.ranks(1001 + WAIT_NS) == frozenset()


def test_one_that_was_not_heard_is_named_at_the_end() -> None:
    beside, known, _ = told(COLLECTOR)
    (text,) = beside.unheard()
    assert text.startswith(
        "collector 2 of rank 1 (pid 77 on the node of learner of rank 1) has not"
    )
    known.add(COLLECTOR.incarnation)
    assert beside.unheard() == []
    assert beside.ranks(1000) == frozenset()


def test_who_ends_meanwhile_is_waited_for_no_more() -> None:
    beside, _, peer = told(COLLECTOR)
    assert beside.ranks(1000) == {1}
    peer.neighbours = ()
    assert beside.ranks(1000) == frozenset()


def test_a_source_cannot_name_any_number() -> None:
    crowd = [Neighbour(bytes([n]) * 16, SourceKey(n, "collector"), n) for n in range(200)]
    beside, _, _ = told(*crowd)
    assert len(beside.ranks(1000)) == 64
