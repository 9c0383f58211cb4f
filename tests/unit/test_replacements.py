"""A process that was started as a replacement has the place when the first one has ended."""

from __future__ import annotations

import pytest
from sources_on_paper import MS, PaperRun, PaperSource

from unilab_metrics.aggregate.folding.entries import OpenAttempt, SourceGone
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.folding.state import AggregatorState
from unilab_metrics.aggregate.receiving.receiver import admit, returned
from unilab_schema.control import Hello, Reject
from unilab_schema.identity import Identity, RunInfo, SourceKey
from unilab_schema.updates import EventUpdate, Update


def alive(_: SourceState) -> bool:
    return False


def hello(
    rank: int = 1, role: str = "learner", started: int = 50, boot: str = "boot", last: int = 3
) -> Hello:
    identity = Identity(
        SourceKey(rank, role), bytes([started]) * 16, started, "host", boot, "/s", "/s/lease",
        started * MS, started * MS, 2, RunInfo(world_size=2),
    )  # fmt: skip
    return Hello(identity, 1, last, 0, 0)


class Place:
    """One with a process at work, and a second one that was turned away at 100 ms."""

    def __init__(self, claim: Hello) -> None:
        self.claim = claim
        self.paper = PaperRun()
        self.zero = self.paper.join(0, learners=2, started=1)
        self.one = self.paper.join(1, learners=2, started=2)
        self.collector = self.paper.join(0, "collector", started=3)
        key = claim.identity.key
        self.first = self.collector if key.role == "collector" else (self.zero, self.one)[key.rank]
        for k, t in enumerate((10, 100)):
            self.step(k, t)
        self.refusal = self.asks()

    def step(self, k: int, t: int, *others: PaperSource) -> None:
        for source in (self.zero, self.one, *others):
            self.paper.fold(source.iteration(k, {"a": 1.0}, t=t))

    def asks(self) -> Reject | None:
        answer = admit(self.paper.state, self.claim, alive, at_work=lambda *_: True)
        self.paper.fold(*answer.entries)
        return answer.refusal

    @property
    def double(self) -> SourceState:
        source = self.paper.state.source_of(self.claim.identity.incarnation)
        assert source is not None
        return source

    def ends(self, how: str = "goodbye", source: PaperSource | None = None) -> None:
        source = source or self.first
        if how == "killed":
            self.paper.lose(source)
        else:
            self.paper.fold(source.end(t=110), SourceGone(source.index, "finished", 0, 0))

    def is_heard(self) -> bool:
        """Whether it has the place from now on."""
        state, last = self.paper.state, self.claim.last
        back = returned(state, self.double, 0.0, 1, 1, hello_last=last)
        if back is not None:
            self.paper.fold(back)
        return back is not None


REPLACEMENTS = pytest.mark.parametrize(
    "claim", [hello(1), hello(0, "collector")], ids=["rank", "c"]
)


@REPLACEMENTS
@pytest.mark.parametrize("how", ["goodbye", "killed"])
def test_a_replacement_has_the_place_once_the_first_one_has_ended(claim: Hello, how: str) -> None:
    place = Place(claim)
    assert place.refusal is not None
    assert not place.refusal.final
    assert place.double.is_double
    assert place.asks() is not None
    place.ends(how)
    assert place.asks() is None
    double = place.double
    source = PaperSource(double.index, double.identity)
    early = source.iteration(1, {"a": 9.0}, t=60), source.end(t=60)
    is_learner = claim.identity.key.role == "learner"
    # What it had logged by then is late, up to the last of it.
    assert not place.is_heard()
    if is_learner:
        place.paper.fold(early[0])
        assert double.late_values == 1
    double.cursor = claim.last
    assert place.is_heard()
    assert not double.is_double
    assert (double.status, double.attempt, double.joined) == ("live", 1, 1)
    assert AggregatorState(place.paper.state.snapshot()).data.sources[-1].status == "live"
    told = [p.entry.frame.text for p in place.paper.published if isinstance(p.entry, EventUpdate)]
    assert "has taken the place of" in told[-1]


def test_what_a_replacement_says_then_enters_the_numbers() -> None:
    place = Place(hello(1, last=0))
    place.ends()
    assert place.asks() is None
    assert place.is_heard()
    source = PaperSource(place.double.index, place.double.identity)
    place.paper.fold(place.zero.iteration(2, {"a": 1.0}, t=200))
    place.paper.fold(source.iteration(2, {"a": 3.0}, t=200))
    place.paper.fold(place.collector.watermark(300))
    place.paper.settle(60_000)
    (update,) = [
        p.entry
        for p in place.paper.published
        if isinstance(p.entry, Update) and p.entry.iteration == 2
    ]
    assert (update.ranks_reported, update.missing_ranks) == (2, ())
    assert place.double.late_values == 0


@REPLACEMENTS
def test_one_that_first_asks_after_the_end_is_told_nothing_of_a_refusal(claim: Hello) -> None:
    is_rank = claim.identity.key.rank == 1
    place = Place(hello(0, "collector", started=40) if is_rank else hello(1, started=40))
    place.ends(source=place.one if is_rank else place.collector)
    place.claim = claim
    assert place.asks() is None
    assert place.double.is_double
    place.double.cursor = claim.last
    assert place.is_heard()


@REPLACEMENTS
def test_the_next_replacement_takes_over_from_a_replacement(claim: Hello) -> None:
    place = Place(claim)
    place.ends()
    place.double.cursor = claim.last
    assert place.asks() is None
    assert place.is_heard()
    first = place.double
    key = claim.identity.key
    place.claim = hello(key.rank, key.role, started=120)
    assert place.asks() is not None
    assert place.double is not first
    place.ends(source=PaperSource(first.index, first.identity, sequence=first.cursor))
    place.double.cursor = claim.last
    assert place.asks() is None
    assert place.is_heard()


@pytest.mark.parametrize("claim", [hello(0), hello(1, boot="another")], ids=["zero", "far"])
def test_rank_0_and_who_has_another_clock_are_turned_away_for_good(claim: Hello) -> None:
    place = Place(claim)
    assert place.refusal is not None
    assert place.refusal.final
    place.ends()
    refusal = place.asks()
    assert refusal is not None
    assert refusal.final


@REPLACEMENTS
@pytest.mark.parametrize("how", ["goodbye", "killed", "replaced"])
def test_without_the_attempts_rank_0_nobody_takes_over(claim: Hello, how: str) -> None:
    place = Place(claim)
    place.ends("goodbye" if how == "goodbye" else "killed", place.zero)
    if how == "replaced":
        place.paper.fold(OpenAttempt(2, 0))
        place.paper.join(0, learners=2, started=120)
    place.ends()
    refusal = place.asks()
    assert refusal is not None
    assert refusal.final


@REPLACEMENTS
def test_one_that_has_said_goodbye_meanwhile_does_not_come_back(claim: Hello) -> None:
    place = Place(claim)
    place.ends()
    place.double.cursor = claim.last
    place.double.ended = "completed"
    assert not place.is_heard()
