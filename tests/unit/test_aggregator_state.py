"""The pure core: folding, attempts, snapshots, the end. Races are lists of entries."""

from __future__ import annotations

import math
from pathlib import Path

from sources_on_paper import PaperRun, two_learners

from unilab_metrics.aggregate.folding.deciding import Decider
from unilab_metrics.aggregate.folding.entries import OpenAttempt, RunEnd, decode_entry, encode_entry
from unilab_metrics.aggregate.folding.state import AggregatorState, Publication
from unilab_metrics.aggregate.outcome import outcome_of
from unilab_schema.frames import EventFrame
from unilab_schema.updates import EventUpdate, RunEnded, Update


def test_iteration_is_sealed_once_every_rank_is_done() -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(1, {"a": 1.0}))
    paper.settle(1000)
    assert paper.updates() == []
    paper.fold(one.iteration(1, {"a": 3.0}))
    paper.settle()
    update, values = paper.updates()[0]
    assert isinstance(update, Update)
    assert (update.ranks_reported, update.ranks_expected) == (2, 2)
    assert values == {"a": 2.0}


def test_more_keeps_the_iteration_open_and_a_later_one_closes_it() -> None:
    paper = PaperRun()
    zero = paper.join(0)
    paper.fold(zero.iteration(1, {"a": 1.0}, more=True))
    paper.settle(5000)
    assert paper.updates() == []
    paper.fold(zero.iteration(1, {"b": 2.0}, more=True), zero.iteration(2, {"a": 5.0}))
    paper.settle()
    assert [values for _, values in paper.updates()] == [{"a": 1.0, "b": 2.0}, {"a": 5.0}]


def test_lost_rank_leaves_the_reduction_and_is_named() -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(1, {"a": 1.0}), one.iteration(1, {"a": 3.0}))
    paper.settle()
    paper.fold(zero.iteration(2, {"a": 1.0}))
    paper.lose(one)
    paper.settle()
    update, values = paper.updates()[-1]
    assert isinstance(update, Update)
    assert values == {"a": 1.0}
    assert (update.ranks_reported, update.ranks_expected, update.missing_ranks) == (1, 2, (1,))
    lost = [p.entry for p in paper.published if isinstance(p.entry, EventUpdate)]
    assert [event.frame.kind for event in lost] == ["lost"]


def test_frames_that_a_rank_left_behind_count_before_it_is_lost() -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(1, {"a": 1.0}), one.iteration(1, {"a": 3.0}))
    paper.lose(one)
    paper.settle()
    assert paper.last() == {"a": 2.0}


def test_frame_whose_handling_fails_is_counted_and_acknowledged() -> None:
    paper = PaperRun()
    zero = paper.join(0)
    good = zero.iteration(1, {"a": 1.0}, more=True)
    bad = zero.iteration(1, {"a": 1.0})
    paper.fold(good)
    paper.state.data.sources[0].layouts.clear()
    paper.fold(bad)
    assert paper.state.data.quarantined == 1
    assert paper.state.data.sources[0].cursor == zero.sequence


def test_new_attempt_may_start_at_an_older_iteration_and_adds_elapsed_time() -> None:
    paper = PaperRun()
    zero = paper.join(0)
    paper.fold(zero.event("training_started", t=1000))
    paper.fold(zero.iteration(9, {"a": 1.0}, t=3000))
    paper.settle()
    paper.lose(zero)
    paper.fold(OpenAttempt(2, 0))
    again = paper.join(0, started=10_000)
    paper.fold(again.event("training_started", t=20_000))
    paper.fold(again.iteration(5, {"a": 2.0}, t=21_000))
    paper.settle()
    assert [(u.attempt, u.iteration, u.elapsed_s) for u, _ in paper.updates()] == [
        (1, 9, 2.0),
        (2, 5, 3.0),
    ]


def test_folding_the_same_entries_again_gives_the_same_history() -> None:
    paper, zero, one = two_learners(step_axis="env_steps", algorithm="sac")
    collector = paper.join(1, "collector")
    for k in range(1, 20):
        paper.fold(collector.report({"reward/x": k * 1.5}, t=k * 10 - 3))
        paper.fold(zero.iteration(k, {"a": k / 3, "Perf/iteration_time": 0.1}, t=k * 10))
        paper.fold(one.iteration(k, {"a": k / 7}, t=k * 10 + 1, env_steps=k))
        paper.settle(5)
    paper.settle(2000)
    again = AggregatorState()
    published: list[Publication] = []
    for entry in paper.entries:
        published += again.handle(decode_entry(*encode_entry(entry)))
    assert published == paper.published


def test_snapshot_continues_as_if_never_stopped() -> None:
    paper, zero, one = two_learners()
    collector = paper.join(0, "collector")
    paper.fold(collector.report({"g": 4.0}, t=1), zero.iteration(1, {"a": 1.0}, t=10))
    resumed = AggregatorState(paper.state.snapshot())
    tail = [one.iteration(1, {"a": 3.0}, t=10), collector.watermark(20)]
    paper.fold(*tail)
    for entry in tail:
        resumed.handle(entry)
    now = 5_000_000_000
    seals = [Decider(state).due(now, now) for state in (paper.state, resumed)]
    assert seals[0] is not None
    assert seals[0] == seals[1]
    assert resumed.handle(seals[0]) == paper.state.handle(seals[0])


def test_latest_holds_the_newest_value_of_every_tag() -> None:
    paper = PaperRun()
    zero = paper.join(0)
    paper.fold(zero.iteration(1, {"a": 1.0, "rare": 7.0}), zero.iteration(2, {"a": 2.0}))
    paper.settle()
    latest = paper.state.latest()
    assert dict(zip(latest.tags, latest.values.tolist(), strict=True)) == {"a": 2.0, "rare": 7.0}
    assert latest.updates.tolist() == [3, 2]


def test_best_reward_is_remembered_and_the_final_one_is_the_newest() -> None:
    paper = PaperRun()
    zero = paper.join(0)
    for k, reward in enumerate((-5.0, 3.0, math.nan, 1.0)):
        paper.fold(zero.iteration(k, {"Train/mean_reward": reward}))
    paper.settle()
    assert paper.state.data.best_mean_reward == 3.0
    assert paper.state.latest_value("Train/mean_reward") == 1.0
    assert paper.state.latest_value("Train/mean_episode_length") is None


def test_warnings_and_unregistered_tags_are_kept_for_the_summary(tmp_path: Path) -> None:
    paper, zero, one = two_learners()
    for source in (zero, one):
        paper.fold(
            source.batch(EventFrame("warning", "my/string: a text is no number", 0, 0)),
            source.iteration(1, {"my/tag": 1.0, "Loss/actor": 1.0}),
        )
    paper.settle()
    outcome = outcome_of(paper.state, tmp_path, {}, {})
    assert outcome.warnings == {"my/string: a text is no number": 2}
    assert outcome.unregistered_tags == ["my/tag"]


def test_nothing_follows_the_end_of_the_run() -> None:
    paper = PaperRun()
    zero = paper.join(0)
    paper.fold(zero.iteration(1, {"a": 1.0}))
    paper.settle()
    paper.fold(RunEnd("completed", "", 0))
    paper.fold(zero.event("warning"), zero.iteration(2, {"a": 1.0}))
    paper.settle()
    assert isinstance(paper.published[-1].entry, RunEnded)
    assert paper.state.data.sources[0].cursor == zero.sequence
