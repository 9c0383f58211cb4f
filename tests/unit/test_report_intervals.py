"""Collector reports: the iteration they belong to, and what holds between them."""

from __future__ import annotations

from sources_on_paper import PaperRun


def test_report_belongs_to_the_interval_that_holds_its_stamp_whatever_arrives_first() -> None:
    paper = PaperRun()
    learner = paper.join(0)
    collector = paper.join(0, "collector")
    paper.fold(learner.iteration(1, {"a": 0.0}, t=10), learner.iteration(2, {"a": 0.0}, t=20))
    for t, value in ((5, 1.0), (15, 3.0), (18, 5.0), (25, 9.0)):
        paper.fold(collector.report({"reward/x": value}, t=t))
    paper.settle()
    assert [values["reward/x"] for _, values in paper.updates()] == [1.0, 4.0]


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


def test_env_steps_come_from_collectors_if_no_learner_counts() -> None:
    paper = PaperRun()
    learner = paper.join(0)
    collector = paper.join(0, "collector")
    paper.fold(collector.report({"g": 1.0}, t=5, env_steps=64), collector.watermark(11))
    paper.fold(learner.iteration(1, {"a": 0.0}, t=10))
    paper.settle()
    assert paper.updates()[0][0].env_steps == 64
