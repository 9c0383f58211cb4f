"""A rank that is ahead waits for one that still hands over what it logged during an outage."""

from __future__ import annotations

import pytest
from sources_on_paper import MS, PaperRun, PaperSource, two_learners

from unilab_metrics.aggregate.folding import deciding, remembering
from unilab_metrics.aggregate.folding.pacing import MAX_AHEAD, RETURN_S, must_wait
from unilab_metrics.aggregate.receiving.peers import SILENT_AFTER_S, Peer
from unilab_schema.control import SourceFigures
from unilab_schema.updates import Supplement, Update

S = 1000 * MS
REMEMBERED = 1024


def ahead(count: int = MAX_AHEAD) -> tuple[PaperRun, PaperSource, PaperSource]:
    """Rank 0 has handed over some iterations, rank 1 the first one only."""
    paper, zero, one = two_learners()
    paper.fold(one.iteration(1, {"a": 1.0}))
    for iteration in range(1, count + 2):
        paper.fold(zero.iteration(iteration, {"a": 1.0}))
    paper.settle()
    return paper, zero, one


def waits(paper: PaperRun, source: PaperSource, peers: dict[int, Peer], now_s: float = 1.0) -> bool:
    sources = paper.state.data.sources
    return must_wait(paper.state, peers, sources[source.index], int(now_s * S), 0)


def test_nobody_waits_for_a_rank_that_is_not_far_behind() -> None:
    paper, zero, one = ahead(MAX_AHEAD - 1)
    assert not waits(paper, zero, {one.index: Peer(b"one", hello_last=10_000)})


def test_a_rank_waits_while_another_hands_over_what_it_said_it_has() -> None:
    paper, zero, one = ahead()
    assert waits(paper, zero, {one.index: Peer(b"one", hello_last=10_000)})
    assert not waits(paper, zero, {one.index: Peer(b"one", hello_last=one.sequence)})
    backlog = SourceFigures(1, 0, 0)
    assert waits(paper, zero, {one.index: Peer(b"one", figures=backlog)})
    assert not waits(paper, one, {zero.index: Peer(b"zero", hello_last=10_000)})


def test_a_rank_that_says_nothing_is_not_waited_for() -> None:
    paper, zero, one = ahead()
    peers = {one.index: Peer(b"one", heard_mono_ns=S, hello_last=10_000)}
    assert waits(paper, zero, peers, SILENT_AFTER_S)
    assert not waits(paper, zero, peers, SILENT_AFTER_S + 1.1)


def test_a_rank_of_before_the_restart_is_expected_back_for_a_while() -> None:
    paper, zero, _ = ahead()
    assert waits(paper, zero, {}, RETURN_S - 0.1)
    assert not waits(paper, zero, {}, RETURN_S + 0.1)


def test_a_dead_rank_is_not_waited_for() -> None:
    paper, zero, one = ahead()
    paper.lose(one)
    assert not waits(paper, zero, {one.index: Peer(b"one", hello_last=10_000)})


def test_late_values_join_their_iteration_before_it_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (deciding, remembering):
        monkeypatch.setattr(module, "MAX_REMEMBERED_ITERATIONS", REMEMBERED)
    paper, zero, one = two_learners()
    paper.fold(one.iteration(REMEMBERED + 500, {"b": 1.0}))
    for iteration in range(1, REMEMBERED + 1):
        paper.fold(zero.iteration(iteration, {"a": 1.0}))
    paper.settle()
    other = paper.join(2, learners=2)
    paper.fold(other.iteration(1, {"c": 1.0}), other.iteration(400_000, {"c": 1.0}))
    for iteration in range(REMEMBERED + 1, REMEMBERED + 400):
        paper.fold(zero.iteration(iteration, {"a": 1.0}))
    paper.settle()
    kinds = [(type(update), update.iteration) for update, _ in paper.updates()]
    assert (Update, REMEMBERED + 399) in kinds
    assert (Supplement, 1) in kinds
