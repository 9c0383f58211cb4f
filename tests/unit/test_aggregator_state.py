"""The pure core: races are lists of entries."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from sources_on_paper import MS, PaperRun, PaperSource

from unilab_metrics.aggregate.deciding import Decider
from unilab_metrics.aggregate.entries import OpenAttempt, RunEnd, decode_entry, encode_entry
from unilab_metrics.aggregate.outcome import outcome_of
from unilab_metrics.aggregate.state import AggregatorState, Publication
from unilab_schema.frames import EventFrame
from unilab_schema.updates import EventUpdate, RunEnded, Supplement, Update


def two_learners(**run: str) -> tuple[PaperRun, PaperSource, PaperSource]:
    paper = PaperRun(**run)
    return paper, paper.join(0, learners=2), paper.join(1, learners=2)


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


def test_throughput_is_the_sum_of_rates_and_wall_is_a_mean() -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(1, {"Perf/total_fps": 384 / 0.5, "Perf/iteration_time": 0.5}))
    paper.fold(one.iteration(1, {"Perf/total_fps": 384 / 1.0, "Perf/iteration_time": 1.0}))
    paper.settle()
    assert paper.last() == {"Perf/total_fps": 1152.0, "Perf/iteration_time": 0.75}


def test_more_keeps_the_iteration_open_and_a_later_one_closes_it() -> None:
    paper = PaperRun()
    zero = paper.join(0)
    paper.fold(zero.iteration(1, {"a": 1.0}, more=True))
    paper.settle(5000)
    assert paper.updates() == []
    paper.fold(zero.iteration(1, {"b": 2.0}, more=True), zero.iteration(2, {"a": 5.0}))
    paper.settle()
    assert [values for _, values in paper.updates()] == [{"a": 1.0, "b": 2.0}, {"a": 5.0}]


def test_last_value_wins_for_a_tag_given_twice() -> None:
    paper = PaperRun()
    zero = paper.join(0)
    paper.fold(zero.iteration(1, {"a": 1.0}, more=True), zero.iteration(1, {"a": 2.0}))
    paper.settle()
    assert paper.last() == {"a": 2.0}


def test_late_values_become_a_supplement_with_only_the_tags_that_the_iteration_lacks() -> None:
    paper = PaperRun()
    zero = paper.join(0)
    paper.fold(zero.iteration(1, {"a": 1.0}), zero.iteration(2, {"a": 2.0}))
    paper.settle()
    paper.fold(zero.iteration(1, {"a": 9.0, "eval": 7.0}))
    paper.settle()
    entry, values = paper.updates()[-1]
    assert isinstance(entry, Supplement)
    assert entry.iteration == 1
    assert values == {"eval": 7.0}
    assert paper.state.data.late_values == 1


def test_supplements_of_all_ranks_are_reduced_together() -> None:
    paper, zero, one = two_learners()
    for source in (zero, one):
        paper.fold(source.iteration(1, {"a": 1.0}), source.iteration(2, {"a": 1.0}))
    paper.settle()
    paper.fold(zero.iteration(1, {"eval": 1.0}))
    paper.settle()
    assert len(paper.updates()) == 2
    paper.fold(one.iteration(1, {"eval": 5.0}))
    paper.settle()
    assert paper.last() == {"eval": 3.0}


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


def test_report_belongs_to_the_interval_that_holds_its_stamp_whatever_arrives_first() -> None:
    paper = PaperRun()
    learner = paper.join(0)
    collector = paper.join(0, "collector")
    paper.fold(learner.iteration(1, {"a": 0.0}, t=10), learner.iteration(2, {"a": 0.0}, t=20))
    for t, value in ((5, 1.0), (15, 3.0), (18, 5.0), (25, 9.0)):
        paper.fold(collector.report({"reward/x": value}, t=t))
    paper.settle()
    assert [values["reward/x"] for _, values in paper.updates()] == [1.0, 4.0]


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


def test_states_hold_until_the_next_report_and_flows_do_not() -> None:
    paper = PaperRun()
    learner = paper.join(0)
    collector = paper.join(0, "collector")
    paper.fold(
        collector.report({"Perf/collector_env_step_ms": 2.0, "reward/x": 1.0}, t=5),
        learner.iteration(1, {"a": 0.0}, t=10),
        learner.iteration(2, {"a": 0.0}, t=20),
        collector.watermark(30),
    )
    paper.settle()
    first, second = (values for _, values in paper.updates())
    assert first == {"a": 0.0, "Perf/collector_env_step_ms": 2.0, "reward/x": 1.0}
    assert second == {"a": 0.0, "Perf/collector_env_step_ms": 2.0}


def test_maximum_since_the_last_report_is_the_maximum_of_the_iterations_reports() -> None:
    paper = PaperRun()
    learner = paper.join(0)
    collector = paper.join(0, "collector")
    tag = "Perf/collector_inference_max_in_flight"
    paper.fold(
        collector.report({tag: 5.0}, t=1),
        collector.report({tag: 2.0}, t=2),
        learner.iteration(1, {"a": 0.0}, t=10),
        collector.report({tag: 1.0}, t=11),
        learner.iteration(2, {"a": 0.0}, t=20),
        collector.watermark(30),
    )
    paper.settle()
    assert [values[tag] for _, values in paper.updates()] == [5.0, 1.0]


def test_dead_collectors_value_leaves_the_reduction() -> None:
    paper = PaperRun()
    learner = paper.join(0)
    collector = paper.join(0, "collector")
    paper.fold(collector.report({"g": 2.0}, t=5), learner.iteration(1, {"a": 0.0}, t=10))
    paper.fold(collector.watermark(11))
    paper.settle()
    paper.lose(collector)
    paper.fold(learner.iteration(2, {"a": 0.0}, t=20))
    paper.settle()
    assert [("g" in values) for _, values in paper.updates()] == [True, False]


def test_several_collectors_of_a_rank_are_reduced_like_ranks() -> None:
    paper = PaperRun()
    learner = paper.join(0)
    collectors = [paper.join(0, "collector", instance=i) for i in range(3)]
    for collector, value in zip(collectors, (1.0, 2.0, 6.0), strict=True):
        paper.fold(collector.report({"reward/x": value}, t=5), collector.watermark(30))
    paper.fold(learner.iteration(1, {"a": 0.0}, t=10))
    paper.settle()
    assert paper.last()["reward/x"] == 3.0


def test_env_steps_are_summed_over_ranks_and_never_fall() -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(1, {"a": 1.0}, env_steps=10), one.iteration(1, {}, env_steps=20))
    paper.settle()
    paper.lose(one)
    paper.fold(zero.iteration(2, {"a": 1.0}, env_steps=15))
    paper.fold(zero.iteration(3, {"a": 1.0}, env_steps=5))
    paper.settle()
    assert [u.env_steps for u, _ in paper.updates()] == [30, 35, 35]


def test_env_steps_of_an_iteration_are_those_of_its_own_frames() -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(1, {}, env_steps=10), zero.iteration(2, {}, env_steps=20))
    paper.fold(one.iteration(1, {}, env_steps=1))
    paper.settle()
    assert paper.updates()[0][0].env_steps == 11


def test_env_steps_come_from_collectors_if_no_learner_counts() -> None:
    paper = PaperRun()
    learner = paper.join(0)
    collector = paper.join(0, "collector")
    paper.fold(collector.report({"g": 1.0}, t=5, env_steps=64), collector.watermark(11))
    paper.fold(learner.iteration(1, {"a": 0.0}, t=10))
    paper.settle()
    assert paper.updates()[0][0].env_steps == 64


def test_iteration_tag_appears_once_the_step_counter_moves() -> None:
    paper = PaperRun(step_axis="env_steps")
    zero = paper.join(0)
    paper.fold(zero.iteration(1, {"a": 1.0}, env_steps=0))
    paper.fold(zero.iteration(2, {"a": 1.0}, env_steps=32))
    paper.settle()
    assert [values.get("Train/iteration") for _, values in paper.updates()] == [None, 2.0]


def test_on_policy_runs_have_no_iteration_tag() -> None:
    paper = PaperRun(step_axis="iteration")
    zero = paper.join(0)
    paper.fold(zero.iteration(1, {"a": 1.0}, env_steps=32))
    paper.settle()
    assert paper.last() == {"a": 1.0}


def test_phase_that_did_not_happen_on_a_rank_counts_as_zero_there() -> None:
    paper, zero, one = two_learners(algorithm="appo")
    publish = "Perf/learner_weight_publish_ms"
    common = {"Perf/iteration_time": 0.010, "Perf/learning_time": 0.006}
    paper.fold(zero.iteration(1, {**common, publish: 4.0}))
    paper.fold(one.iteration(1, {**common, "Perf/learning_time": 0.010}))
    paper.settle()
    values = paper.last()
    assert values[publish] == 2.0
    assert values["Perf/learning_time"] == pytest.approx(0.008, rel=1e-15)


def test_missing_value_that_is_no_phase_is_no_zero() -> None:
    paper, zero, one = two_learners(algorithm="appo")
    paper.fold(zero.iteration(1, {"Perf/iteration_time": 1.0, "x": 4.0}))
    paper.fold(one.iteration(1, {"Perf/iteration_time": 1.0}))
    paper.settle()
    assert paper.last()["x"] == 4.0


def test_values_that_a_library_has_reduced_come_from_rank_zero_only() -> None:
    paper, zero, one = two_learners()
    for source, value in ((zero, 1000.0), (one, 1.0)):
        frame = source.iteration(1, {"Perf/total_fps": value}, more=True, already_reduced=True)
        paper.fold(frame, source.iteration(1, {"a": value}))
    paper.settle()
    assert paper.last() == {"Perf/total_fps": 1000.0, "a": 500.5}


def test_rank_that_only_sends_reduced_values_is_still_done() -> None:
    paper, zero, one = two_learners()
    for source in (zero, one):
        paper.fold(source.iteration(1, {"a": 1.0}, already_reduced=True))
    paper.settle()
    assert paper.last() == {"a": 1.0}


def test_partials_are_merged_by_weight() -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(1, {"a": 5.0}, weights={"a": 5.0}))
    paper.fold(one.iteration(1, {"a": 4.0}, weights={"a": 4.0}))
    paper.settle()
    assert paper.last() == {"a": 1.0}


def test_nan_is_kept_touches_no_other_tag_and_is_remembered() -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(7, {"a": 1.0, "b": 1.0}))
    paper.fold(one.iteration(7, {"a": math.nan, "b": 3.0}))
    paper.settle()
    values = paper.last()
    assert math.isnan(values["a"])
    assert values["b"] == 2.0
    first = paper.state.data.first_nonfinite["a"]
    assert (first.iteration, first.rank) == (7, 1)


def test_opposite_infinities_and_overflow_are_data() -> None:
    paper, zero, one = two_learners()
    paper.fold(zero.iteration(1, {"a": math.inf, "b": 1e308}))
    paper.fold(one.iteration(1, {"a": -math.inf, "b": 1e308}))
    paper.settle()
    values = paper.last()
    assert math.isnan(values["a"])
    assert values["b"] == pytest.approx(1e308)


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


def test_wall_time_of_an_update_is_rank_zeros() -> None:
    paper, zero, one = two_learners()
    paper.fold(one.iteration(1, {"a": 1.0}, t=90_000), zero.iteration(1, {"a": 1.0}, t=50))
    paper.settle()
    assert paper.updates()[0][0].unix_ns == 50_000_000


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


def test_best_reward_is_remembered_and_the_final_one_is_the_newest() -> None:
    paper = PaperRun()
    zero = paper.join(0)
    for k, reward in enumerate((-5.0, 3.0, math.nan, 1.0)):
        paper.fold(zero.iteration(k, {"Train/mean_reward": reward}))
    paper.settle()
    assert paper.state.data.best_mean_reward == 3.0
    assert paper.state.latest_value("Train/mean_reward") == 1.0
    assert paper.state.latest_value("Train/mean_episode_length") is None


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


@pytest.mark.parametrize(
    ("iteration", "env_steps"),
    [(2**62, 1), (-(2**62), 1), (1, 2**63 - 1), (1, 2**64 - 1), (1, -1)],
)
def test_numbers_that_fit_no_update_are_quarantined(iteration: int, env_steps: int) -> None:
    paper = PaperRun(step_axis="env_steps")
    zero = paper.join(0)
    paper.fold(zero.iteration(iteration, {"a": 1.0}, env_steps=env_steps))
    paper.fold(zero.iteration(3, {"a": 1.0}, env_steps=32))
    paper.settle()
    assert paper.state.data.quarantined == 1
    assert [(u.iteration, u.env_steps) for u, _ in paper.updates()] == [(3, 32)]
    paper.state.snapshot()


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
