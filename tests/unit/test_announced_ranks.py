"""Ranks of other nodes that were let in and have not spoken yet, when all others are gone."""

from __future__ import annotations

import pytest
from sources_on_paper import MS, PaperRun

from unilab_metrics.aggregate.folding.entries import OpenAttempt, SourceGone
from unilab_metrics.aggregate.leaving import newcomers
from unilab_metrics.aggregate.leaving.newcomers import ABSENT_S, Announced
from unilab_metrics.aggregate.options import Options
from unilab_metrics.aggregate.patience import Patience
from unilab_metrics.transport.allow_list import parse
from unilab_metrics.transport.authentication import Authenticator
from unilab_metrics.transport.endpoints import Endpoints


class Clock:
    """Seconds that only a test lets pass."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        monkeypatch.setattr(newcomers.time, "monotonic_ns", lambda: int(self.now_s * 1e9))
        monkeypatch.setattr(newcomers.time, "monotonic", lambda: self.now_s)


def alone(learners: int = 2) -> PaperRun:
    """Rank 0 has sealed an iteration without the others, and is gone."""
    paper = PaperRun()
    zero = paper.join(0, learners=learners, started=10)
    paper.fold(zero.iteration(1, {"a": 1.0}, t=11), zero.end(t=12))
    paper.fold(SourceGone(zero.index, "finished", 0, 13 * MS))
    while (seal := paper.decider.flush(0, 0)) is not None:
        paper.fold(seal)
    assert paper.state.data.iterations_sealed == 1
    return paper


def test_one_is_waited_for_once_and_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, paper = Clock(monkeypatch), alone()
    patience = Patience(Options(), paper.state.data)
    announced = Announced(paper.state.data, lambda: frozenset({1}), listens=True)
    assert not patience.is_over(announced.ranks)
    clock.now_s += ABSENT_S - 0.1
    assert not patience.is_over(announced.ranks)
    clock.now_s += 0.2
    assert patience.is_over(announced.ranks)
    paper.fold(OpenAttempt(2, 0))
    paper.join(0, learners=2, started=100)
    assert announced.ranks() == {1}


def test_who_has_spoken_is_known_and_not_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch)
    paper = alone(3)
    announced = Announced(paper.state.data, lambda: frozenset({0, 1, 2, 7}), listens=False)
    assert announced.ranks() == {1, 2}
    paper.join(1, learners=3, started=14)
    assert announced.ranks() == {2}
    assert Announced(paper.state.data, frozenset, listens=False).ranks() == frozenset()


@pytest.mark.parametrize(("elapsed_s", "awaited"), [(10.0, {1}), (40.0, set[int]())])
def test_after_half_a_minute_only_those_with_a_key_are_waited_for(
    elapsed_s: float, awaited: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    Clock(monkeypatch)
    data = alone().state.data
    data.elapsed_s = data.earlier_elapsed_s + elapsed_s
    assert Announced(data, frozenset, listens=True).ranks() == awaited
    assert Announced(data, frozenset, listens=False).ranks() == frozenset()


def test_keys_for_one_rank_announce_it() -> None:
    keys = [letter * 40 for letter in "abcdef"]
    text = (
        f"publish {keys[0]} (this run's own)\nwatch {keys[1]}\npublish {keys[2]} ranks=1 far\n"
        f"publish {keys[3]} ranks=2,3\npublish {keys[4]} ranks=4-9\n# publish {keys[5]} ranks=5\n"
    )
    made = object.__new__(Endpoints)
    made._authenticator = object.__new__(Authenticator)
    made._authenticator.allowed = parse(text)
    assert made.announced_ranks() == {1}
