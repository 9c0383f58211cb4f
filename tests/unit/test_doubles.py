"""The second process in a place is turned away; a restart is not, and a replacement only until the
first one has ended."""

from __future__ import annotations

import msgspec
import pytest
from sources_on_paper import MS, PaperRun, PaperSource

from unilab_metrics.aggregate.folding.entries import OpenAttempt, RunEnd, SourceGone, SourceJoined
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.folding.state import AggregatorState
from unilab_metrics.aggregate.outcome import end_status
from unilab_metrics.aggregate.receiving.peers import Peer
from unilab_metrics.aggregate.receiving.receiver import Admission, admit
from unilab_metrics.aggregate.receiving.turned_away import TurnedAway
from unilab_schema.control import Batch, Hello
from unilab_schema.frames import PointsFrame
from unilab_schema.identity import Identity, RunInfo, SourceKey
from unilab_schema.updates import AttemptOpened, PointsUpdate

SECOND = 1_000_000_000
OTHER = RunInfo(task="other", world_size=2)


def hello(
    rank: int = 0, started: int = 50, *, role: str = "learner", boot: str = "boot", pid: int = 7
) -> Hello:
    """Of a process that began at ``started`` ms and is unknown."""
    identity = Identity(
        SourceKey(rank, role), bytes([started, pid]) * 8, pid, "host", boot, "/s", "/s/lease",
        started * MS, started * MS, 2, OTHER,
    )  # fmt: skip
    return Hello(identity, 1, 0, started * MS, 0)


def alive(_: SourceState) -> bool:
    return False


def work(until: int = 100) -> tuple[PaperRun, PaperSource, PaperSource]:
    """Ranks 0 and 1, each with an iteration at 10 ms and one at ``until``."""
    paper = PaperRun(task="real")
    zero, one = paper.join(0, learners=2, started=1), paper.join(1, learners=2, started=2)
    for k, t in enumerate((10, until)):
        paper.fold(zero.iteration(k, {"a": 1.0}, t=t), one.iteration(k, {"a": 3.0}, t=t))
    paper.settle()
    return paper, zero, one


def take(paper: PaperRun, admission: Admission) -> None:
    if admission.opens_attempt:
        paper.fold(OpenAttempt(paper.state.data.attempt + 1, 0))
    paper.fold(*admission.entries)


def is_final(admission: Admission) -> bool:
    refusal = admission.refusal
    assert refusal is not None
    assert refusal.code == "duplicate_rank"
    return refusal.final


def opened(paper: PaperRun) -> list[tuple[int, str]]:
    entries = [publication.entry for publication in paper.published]
    return [(e.attempt, e.run.task) for e in entries if isinstance(e, AttemptOpened)]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_second_process_is_turned_away_once_the_first_has_said_more(rank: int) -> None:
    paper, *_ = work(until=49)
    claim = hello(rank)
    first = admit(paper.state, claim, alive)
    assert not is_final(first)
    assert first.entries == ()
    sources = [PaperSource(s.index, s.identity, sequence=10) for s in paper.state.data.sources]
    paper.fold(*(source.iteration(2, {"a": 1.0}, t=51) for source in sources))
    second = admit(paper.state, claim, alive)
    is_for_good = rank == 0
    assert is_final(second) is is_for_good
    take(paper, second)
    assert paper.state.data.sources[-1].is_double
    again = admit(AggregatorState(paper.state.snapshot()), claim, alive)
    assert is_final(again) is is_for_good
    assert again.entries == ()


@pytest.mark.parametrize("how", ["goodbye", "killed", "over"])
def test_a_second_rank_0_opens_no_attempt_when_the_first_has_ended(how: str) -> None:
    paper, zero, one = work()
    if how == "killed":
        paper.lose(zero)
    else:
        paper.fold(zero.end(t=110), SourceGone(zero.index, "finished", 0, 0))
    if how == "over":
        paper.fold(one.end(t=110), SourceGone(one.index, "finished", 0, 0))
        paper.fold(RunEnd("completed", "", 0))
    ended, before = paper.state.data.ended, len(paper.published)
    answer = admit(paper.state, hello(), alive)
    assert is_final(answer)
    take(paper, answer)
    data = paper.state.data
    assert (data.attempt, data.ended, data.run.task) == (1, ended, "real")
    assert len(paper.published) == before
    assert opened(paper) == [(1, "real")]
    assert end_status(data)[0] == ("failed" if how == "killed" else "completed")


def test_a_second_rank_0_is_turned_away_also_if_only_the_goodbye_came_after_its_start() -> None:
    paper, zero, _ = work(until=49)
    paper.fold(zero.end(t=51), SourceGone(zero.index, "finished", 0, 0))
    assert is_final(admit(paper.state, hello(), alive))


@pytest.mark.parametrize("how", ["goodbye", "killed"])
def test_a_restart_opens_the_next_attempt(how: str) -> None:
    paper, zero, _ = work(until=49)
    claim = hello()
    assert not is_final(admit(paper.state, claim, alive))  # not known to be dead yet
    if how == "killed":
        paper.lose(zero)
    else:
        paper.fold(zero.end(t=49), SourceGone(zero.index, "finished", 0, 0))
    answer = admit(paper.state, claim, alive)
    assert answer.opens_attempt
    take(paper, answer)
    assert opened(paper) == [(1, "real"), (2, "other")]


def test_a_process_that_opens_the_run_twice_is_nobodys_double() -> None:
    paper, zero, _ = work()
    paper.fold(zero.end(t=110), SourceGone(zero.index, "finished", 0, 0))
    assert admit(paper.state, hello(pid=100), alive).opens_attempt


def test_what_a_dead_double_has_left_is_late_at_once() -> None:
    paper, *_ = work(until=49)
    claim = hello(0)
    answer = admit(paper.state, claim, alive, is_orphan=True)
    assert answer.refusal is None
    take(paper, answer)
    source = paper.state.source_of(claim.identity.incarnation)
    assert source is not None
    double = PaperSource(source.index, source.identity)
    before = len(paper.published)
    points = PointsFrame(())
    paper.fold(
        double.iteration(7, {"a": 99.0}, t=60),
        double.event("summary", t=60, note="other"),
        double.batch(points),
        double.end(t=61),
        SourceGone(double.index, "finished", 0, 0),
    )
    paper.settle(60_000)
    data = paper.state.data
    assert len(paper.published) == before
    assert (data.attempt, data.late_values, data.summary, data.quarantined) == (1, 3, {}, 0)
    assert not any(isinstance(p.entry, PointsUpdate) for p in paper.published)
    (text,) = data.warnings
    assert "claimed the place of learner of rank 0 (pid 100 on host) while that was at" in text


def test_who_died_before_the_other_began_is_not_its_double() -> None:
    paper, zero, one = work()
    assert admit(paper.state, hello(1, started=1), alive, is_orphan=True).refusal is not None
    paper.fold(one.end(t=110), SourceGone(one.index, "finished", 0, 0))
    paper.lose(zero)
    assert not admit(paper.state, hello(0, started=120), alive).refusal


def test_the_first_process_of_a_place_is_not_the_double_of_a_dead_one() -> None:
    """A child's spool was found before its parent had said Hello."""
    paper = PaperRun()
    child = paper.join(0, started=60)
    paper.fold(child.iteration(1, {"a": 1.0}, t=61))
    paper.lose(child)
    assert admit(paper.state, hello(started=50), alive).opens_attempt


def test_a_rank_whose_rank_0_has_said_nothing_since_may_be_of_the_next_attempt() -> None:
    paper, zero, one = work(until=49)
    paper.fold(one.iteration(2, {"a": 1.0}, t=60))
    assert not admit(paper.state, hello(1), alive).entries
    paper.fold(zero.iteration(2, {"a": 1.0}, t=60))
    assert admit(paper.state, hello(1), alive).entries


def test_a_survivor_of_an_earlier_attempt_turns_nobody_away() -> None:
    paper, zero, one = work(until=49)
    paper.lose(zero)
    paper.fold(OpenAttempt(2, 0))
    zero = paper.join(0, learners=2, started=50)
    paper.fold(one.iteration(2, {"a": 1.0}, t=60), zero.iteration(2, {"a": 1.0}, t=60))
    paper.fold(one.end(t=61), SourceGone(one.index, "finished", 0, 0))
    assert admit(paper.state, hello(1, started=51), alive).refusal is None


def test_the_double_of_one_attempt_is_none_of_the_next() -> None:
    paper, zero, one = work()
    claim = hello(1)
    take(paper, admit(paper.state, claim, alive))
    paper.lose(zero)
    paper.lose(one)
    take(paper, admit(paper.state, hello(0, started=120), alive))
    assert paper.state.data.attempt == 2
    assert is_final(admit(paper.state, claim, alive))
    assert admit(paper.state, hello(1, started=121), alive).refusal is None


def test_a_process_that_joins_late_counts_for_nothing_even_without_the_reason() -> None:
    paper, *_ = work()
    claim = hello()
    paper.fold(SourceJoined(2, claim.identity, is_late=True))
    double = PaperSource(2, claim.identity)
    before = len(paper.published)
    paper.fold(double.iteration(9, {"a": 99.0}))
    paper.settle(60_000)
    assert len(paper.published) == before
    assert paper.state.data.run.task == "real"


def told(peer: Peer, watermark: int, *, heard: int, clock: int) -> None:
    """A source says that it lives; times are milliseconds."""
    peer.heard_mono_ns = heard * MS
    identity = PaperRun().join(0).identity
    source = SourceState(0, identity)
    peer.take(Batch(identity.incarnation, watermark * MS, clock * MS, 0), source)


def test_a_sign_of_life_tells_a_double_before_the_next_iteration() -> None:
    paper, *_ = work(until=49)
    peer = Peer()
    turned_away = TurnedAway({0: peer})
    zero, identity = paper.state.data.sources[0], hello().identity
    told(peer, 50, heard=51, clock=51)
    assert not turned_away.has_met(zero, identity)
    told(peer, 51, heard=51, clock=51)
    assert turned_away.has_met(zero, identity)


def test_what_another_process_sends_for_a_dead_one_is_no_sign_of_life() -> None:
    paper, *_ = work(until=49)
    peer = Peer(adopted_upto=9)
    told(peer, 99, heard=99, clock=99)
    assert not TurnedAway({0: peer}).has_met(paper.state.data.sources[0], hello().identity)


def test_of_another_node_only_what_is_later_than_the_refusal_by_a_second_counts() -> None:
    paper, *_ = work(until=49)
    peer = Peer()
    turned_away = TurnedAway({0: peer})
    zero, claim = paper.state.data.sources[0], hello(boot="theirs")
    refusal = admit(paper.state, claim, alive).refusal
    assert refusal is not None
    # The source's clock is 5 s behind ours, its messages take 3 ms, and once 4 s.
    told(peer, 1_000, heard=6_003, clock=1_000)
    assert not turned_away.has_met(zero, claim.identity)
    turned_away.refused(claim.identity, refusal, 7 * SECOND)
    told(peer, 2_900, heard=11_900, clock=2_900)
    assert not turned_away.has_met(zero, claim.identity)
    told(peer, 3_010, heard=12_000, clock=3_010)
    assert turned_away.has_met(zero, claim.identity)


def test_a_second_collector_is_turned_away_too() -> None:
    paper, *_ = work()
    paper.join(0, "collector", started=3)
    claim = hello(role="collector")
    assert not admit(paper.state, claim, alive).entries

    def at_work(source: SourceState, identity: Identity) -> bool:
        return msgspec.structs.asdict(identity)["started_mono_ns"] < 60 * MS

    answer = admit(paper.state, claim, alive, at_work=at_work)
    assert isinstance(answer.entries[1], SourceGone)
    assert answer.entries[1].how == "double"
