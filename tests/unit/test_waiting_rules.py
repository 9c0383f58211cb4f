"""When an iteration is sealed, and what is waited for."""

from __future__ import annotations

from sources_on_paper import MS, PaperRun, two_learners

from unilab_metrics.aggregate.receiving.peers import Peer
from unilab_schema.control import Batch
from unilab_schema.frames import Drops
from unilab_schema.updates import Update


def test_straggler_is_not_waited_for_beyond_the_deadline() -> None:
    paper, zero, _ = two_learners()
    paper.fold(zero.iteration(1, {"a": 1.0}))
    paper.settle()
    paper.settle(29_000)
    assert paper.updates() == []
    paper.settle(1_000)
    update, _ = paper.updates()[0]
    assert isinstance(update, Update)
    assert (update.ranks_reported, update.missing_ranks) == (1, (1,))


def test_rank_that_falls_silent_holds_the_others_up_once() -> None:
    paper, zero, one = two_learners()
    for k in range(1, 4):
        paper.fold(zero.iteration(k, {"a": 1.0}))
        paper.settle(10_000)
    assert paper.updates() == []
    paper.settle(10_000)
    assert [update.iteration for update, _ in paper.updates()] == [1, 2, 3]
    paper.fold(zero.iteration(4, {"a": 1.0}))
    paper.settle()
    assert [update.iteration for update, _ in paper.updates()] == [1, 2, 3, 4]
    paper.fold(one.iteration(1, {"b": 2.0}), zero.iteration(5, {"a": 1.0}))
    paper.settle(1_001)
    paper.settle(1_001)
    assert [update.iteration for update, _ in paper.updates()] == [1, 2, 3, 4, 1]
    paper.fold(one.iteration(5, {"a": 3.0}))
    paper.settle()
    assert paper.last() == {"a": 2.0}


def test_rank_whose_values_cannot_reach_us_holds_nobody_up_until_one_does() -> None:
    paper, zero, one = two_learners()
    paper.decider.excuse(one.index)
    paper.fold(zero.iteration(1, {"a": 1.0}))
    paper.settle()
    update, _ = paper.updates()[0]
    assert isinstance(update, Update)
    assert (update.ranks_reported, update.ranks_expected, update.missing_ranks) == (1, 2, (1,))
    paper.fold(one.iteration(2, {"a": 3.0}), zero.iteration(2, {"a": 1.0}))
    paper.fold(zero.iteration(3, {"a": 1.0}))
    paper.settle()
    assert [update.iteration for update, _ in paper.updates()] == [1, 2]
    assert paper.last() == {"a": 2.0}


def test_only_what_newly_fails_to_reach_us_is_an_excuse() -> None:
    paper, _, one = two_learners()
    source, peer = paper.state.data.sources[one.index], Peer()
    batch = Batch(one.identity.incarnation, 0, 0, 0, drops={"spool_unavailable": 3, "bad_tag": 1})
    assert peer.take(batch, source)
    assert not peer.take(batch, source)
    paper.fold(one.batch(Drops({"spool_unavailable": 3})))
    assert not Peer().take(batch, source), "the aggregator was started again"


def test_rank_that_lags_behind_costs_each_iteration_its_deadline_and_no_more() -> None:
    paper, zero, one = two_learners()
    for k in range(1, 9):
        paper.fold(zero.iteration(k, {"a": 1.0}))
        paper.settle(10_000)
        if k > 4:
            paper.fold(one.iteration(k - 4, {"a": 3.0}))
    paper.settle()
    iterations = [update.iteration for update, _ in paper.updates() if isinstance(update, Update)]
    assert iterations == [1, 2, 3, 4, 5]


def test_rank_that_never_came_is_waited_for_only_once() -> None:
    paper = PaperRun()
    zero = paper.join(0, learners=2)
    paper.fold(zero.iteration(1, {"a": 1.0}))
    paper.settle()
    paper.settle(31_000)
    paper.fold(zero.iteration(2, {"a": 1.0}))
    paper.settle()
    assert [u.iteration for u, _ in paper.updates()] == [1, 2]
    one = paper.join(1, learners=2)
    paper.fold(zero.iteration(3, {"a": 1.0}))
    paper.settle()
    assert len(paper.updates()) == 2
    paper.fold(one.iteration(3, {"a": 3.0}))
    paper.settle()
    assert paper.last() == {"a": 2.0}


def test_iteration_waits_for_its_collectors_watermark() -> None:
    paper = PaperRun()
    learner = paper.join(0)
    collector = paper.join(0, "collector")
    paper.fold(learner.iteration(1, {"a": 0.0}, t=10))
    paper.settle(500)
    assert paper.updates() == []
    paper.fold(collector.watermark(9))
    paper.settle(10)
    assert paper.updates() == []
    paper.fold(collector.watermark(10))
    paper.settle()
    assert len(paper.updates()) == 1


def test_collector_that_is_silent_holds_up_no_iteration() -> None:
    paper = PaperRun()
    learner = paper.join(0)
    paper.join(0, "collector")
    for k in range(1, 4):
        paper.fold(learner.iteration(k, {"a": 0.0}, t=10 * k))
    paper.settle()
    assert paper.updates() == []
    paper.settle(1001)
    assert len(paper.updates()) == 3


def test_own_pause_is_not_taken_for_a_collectors_silence() -> None:
    paper = PaperRun()
    learner = paper.join(0)
    collector = paper.join(0, "collector")
    paper.fold(learner.iteration(1, {"a": 0.0}, t=10))
    paper.settle()
    paper.now += 3_000 * MS
    paper.decider.resumed(paper.now)
    paper.settle()
    assert paper.updates() == []
    paper.fold(collector.report({"reward/x": 1.0}, t=5), collector.watermark(10))
    paper.settle()
    assert paper.last()["reward/x"] == 1.0


def test_collector_that_speaks_and_never_catches_up_is_waited_for_only_once() -> None:
    paper = PaperRun()
    learner = paper.join(0)
    collector = paper.join(0, "collector")
    for k in range(1, 4):
        paper.fold(learner.iteration(k, {"a": 0.0}, t=10 * k))
    for _ in range(21):
        paper.decider.heard(collector.index, paper.now)
        paper.settle(100)
    assert len(paper.updates()) == 3
    paper.fold(collector.watermark(35), learner.iteration(4, {"a": 0.0}, t=40))
    paper.decider.heard(collector.index, paper.now)
    paper.settle()
    assert len(paper.updates()) == 4


def test_process_that_publishes_already_is_waited_for_before_it_says_hello() -> None:
    paper = PaperRun()
    learner = paper.join(0)
    paper.fold(learner.iteration(1, {"a": 0.0}, t=10))
    now = 10_000 * MS
    assert paper.decider.due(0, 0, frozenset({0})) is None
    assert paper.decider.due(1_000 * MS, 0, frozenset({0})) is None
    collector = paper.join(0, "collector")
    paper.fold(collector.report({"reward/x": 1.0}, t=5), collector.watermark(10))
    seal = paper.decider.due(now, now)
    assert seal is not None
    paper.fold(seal)
    assert paper.last() == {"a": 0.0, "reward/x": 1.0}


def test_own_pause_is_not_taken_for_a_stragglers() -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(1, {"a": 1.0}))
    paper.settle()
    paper.now += 40_000 * MS
    paper.decider.resumed(paper.now)
    paper.settle()
    assert paper.updates() == []
    paper.fold(one.iteration(1, {"a": 3.0}))
    paper.settle()
    assert paper.last() == {"a": 2.0}
