"""What a dead process of another node left, when the attempt after it has begun already."""

from __future__ import annotations

import pytest
from sources_on_paper import MS, PaperRun

from unilab_metrics.aggregate.folding.entries import OpenAttempt
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.receiving.receiver import admit
from unilab_schema.control import Hello
from unilab_schema.identity import Identity, SourceKey


def second_attempt(attempt: int = 2, *, goodbye: bool = False) -> PaperRun:
    """Rank 0 is on this node, rank 1 was started at 60 ms of another one's clock."""
    paper = PaperRun()
    if attempt > 1:
        paper.join(0, learners=2, started=500)
        paper.fold(OpenAttempt(attempt, 0))
    paper.join(0, learners=2, started=900)
    one = paper.join(1, learners=2, started=60, boot="theirs")
    if goodbye:
        paper.fold(one.end(t=70))
    return paper


def ask(paper: PaperRun, started: int, boot: str = "theirs") -> str:
    """What becomes of a dead rank 1 that was never heard: the refusal's code, or ``late``."""
    identity = Identity(
        SourceKey(1, "learner"), bytes([started]) * 16, 7, "node", boot, "/s", "/s/lease",
        started * MS, started * MS, 2, paper.run,
    )  # fmt: skip
    hello = Hello(identity, 1, 9, 80 * MS, 0, adopted=True)

    def is_dead(_: SourceState) -> bool:
        return False

    admission = admit(paper.state, hello, is_dead, is_orphan=True)
    if admission.refusal is not None:
        return admission.refusal.code
    for entry in admission.entries:
        paper.fold(entry)
    source = paper.state.source_of(identity.incarnation)
    assert source is not None
    return "late" if source.joined < paper.state.data.attempt else "joined"


@pytest.mark.parametrize("goodbye", [False, True])
def test_who_was_there_before_the_one_that_has_its_place_is_of_the_attempt_before(
    goodbye: bool,
) -> None:
    paper = second_attempt(goodbye=goodbye)
    assert ask(paper, 11) == "late"
    occupant = paper.state.occupant(1, "learner", 0)
    assert occupant is not None
    assert occupant.identity.started_mono_ns == 60 * MS


def test_in_the_first_attempt_there_is_none_before() -> None:
    assert ask(second_attempt(1), 11) == "duplicate_rank"


def test_a_claim_of_a_taken_place_stays_one() -> None:
    assert ask(second_attempt(), 70) == "duplicate_rank"
    assert ask(second_attempt(), 11, boot="a third") == "duplicate_rank"
