"""A rank 0 that is started again waits for what other nodes may still have of the last attempt."""

from __future__ import annotations

import pytest
from sources_on_paper import MS, PaperRun, PaperSource

from unilab_metrics.aggregate.folding.entries import SourceGone
from unilab_metrics.aggregate.leaving.left_elsewhere import SENDING_NS, WAIT_NS, LeftElsewhere
from unilab_metrics.aggregate.receiving.peers import Peer
from unilab_metrics.aggregate.receiving.receiver import Admission

OPENS = Admission((), opens_attempt=True)
SECOND = 1000 * MS


class Restart:
    """Rank 0 is gone; rank 1 is on another node, and was last heard at 1 s."""

    def __init__(self) -> None:
        self.paper = PaperRun()
        zero = self.paper.join(0, learners=2, started=10)
        self.far = self.paper.join(1, learners=2, started=10, boot="far")
        self.paper.fold(zero.iteration(1, {"a": 1.0}, t=11))
        self.gone(zero)
        data = self.paper.state.data
        self.peer = Peer(heard_mono_ns=SECOND)
        self.left = LeftElsewhere(
            data,
            peer=lambda _source: self.peer,
            is_out_of_sight=lambda source: source.identity.boot_id == "far",
        )

    def gone(self, source: PaperSource, how: str = "lost") -> None:
        self.paper.fold(SourceGone(source.index, how, 0, 12 * MS))

    def opens(self, mono_ns: int) -> bool:
        admission = self.left.hold(OPENS, mono_ns)
        assert admission is OPENS or (
            admission.refusal is not None
            and admission.refusal.code == "held"
            and not admission.refusal.final
            and "learner of rank 1" in admission.refusal.text
        )
        return admission is OPENS


@pytest.fixture
def restart() -> Restart:
    return Restart()


def test_a_moment_and_no_longer(restart: Restart) -> None:
    now = 2 * SECOND
    end = now + WAIT_NS
    while now < end:
        assert not restart.opens(now)
        assert restart.left.is_waited_for(now + SECOND)
        now += SECOND // 5
    assert restart.opens(now)
    assert not restart.left.is_waited_for(now)


def test_until_what_it_has_left_is_there(restart: Restart) -> None:
    assert not restart.opens(2 * SECOND)
    restart.peer.heard_mono_ns = 3 * SECOND
    restart.peer.adopted_upto = 2
    assert not restart.opens(3 * SECOND)
    for _ in range(2):
        restart.paper.fold(restart.far.iteration(2, {"a": 1.0}, t=12))
    assert restart.opens(4 * SECOND)


def test_not_for_ever_while_it_is_sent(restart: Restart) -> None:
    restart.peer.adopted_upto = 2
    now = 2 * SECOND
    while now < 2 * SECOND + SENDING_NS:
        assert not restart.opens(now)
        now += SECOND
    assert restart.opens(now)


def test_not_for_one_that_lives(restart: Restart) -> None:
    assert not restart.opens(2 * SECOND)
    restart.peer.heard_mono_ns = 2 * SECOND + 1
    assert restart.opens(2 * SECOND + SECOND // 5)


def test_not_for_one_that_has_ended_or_was_given_up(restart: Restart) -> None:
    restart.gone(restart.far)
    assert restart.opens(2 * SECOND)
    ended = Restart()
    ended.paper.fold(ended.far.end(t=13))
    assert ended.opens(2 * SECOND)


def test_a_rank_0_that_comes_later_waits_anew(restart: Restart) -> None:
    assert not restart.opens(2 * SECOND)
    later = 2 * SECOND + 10 * WAIT_NS
    assert not restart.left.is_waited_for(later)
    assert not restart.opens(later)


def test_nothing_else_is_held(restart: Restart) -> None:
    admission = Admission()
    assert restart.left.hold(admission, 2 * SECOND) is admission
