"""Timelines against the checklist: Other, percentages, what is shown, derived rates."""

from __future__ import annotations

import math

import pytest

from unilab_schema.timing import (
    Row,
    collector_active_rate,
    collector_cycle_ms,
    collector_timeline,
    learner_other_ms,
    learner_timeline,
)

WALL = "Perf/iteration_time"
CYCLE = {
    "Perf/collector_inference_request_ms": 0.3,
    "Perf/collector_learner_action_wait_ms": 60.0,
    "Perf/collector_env_step_ms": 30.0,
    "Perf/collector_transition_extract_ms": 1.0,
    "Perf/collector_replay_write_ms": 8.0,
    "Perf/collector_metrics_publish_ms": 0.7,
}


def _percents(rows: tuple[Row, ...]) -> dict[str, float | None]:
    return {row.label: row.percent for row in rows}


def test_phases_and_other_are_the_wall() -> None:
    timeline = learner_timeline(
        {
            WALL: 0.010,
            "Perf/learner_collector_wait_ms": 1.0,
            "Perf/learner_inference_ms": 2.0,
            "Perf/learner_collector_release_ms": 0.5,
            "Perf/learner_replay_batch_wait_ms": 0.0,
            "Perf/learner_replay_sample_ms": 0.5,
            "Perf/learning_time": 0.005,
        },
        "sac",
    )
    assert [row.label for row in timeline.rows] == [
        "Collector Wait",
        "Inference",
        "Collector Release",
        "Replay Batch Wait",
        "Replay Sample",
        "Learning",
        "Other",
        "Iter Wall",
    ]
    assert [row.ms for row in timeline.rows] == pytest.approx([1, 2, 0.5, 0, 0.5, 5, 1, 10])
    assert sum(row.percent or 0 for row in timeline.rows[:-1]) == pytest.approx(100.0)
    assert timeline.rows[-1].percent == 100.0
    assert timeline.accounted_percent == pytest.approx(90.0)
    assert not timeline.over_accounted


def test_a_phase_that_only_one_rank_had_adds_up_after_the_mean() -> None:
    # Walls 10 and 10, learning 6 and 10, publish 4 on rank 0 and 0 on rank 1.
    means = {WALL: 0.010, "Perf/learning_time": 0.008, "Perf/learner_weight_publish_ms": 2.0}
    timeline = learner_timeline(means, "appo")
    assert _percents(timeline.rows) == pytest.approx(
        {"Learning": 80.0, "Weight Publish": 20.0, "Other": 0.0, "Iter Wall": 100.0}
    )
    assert not timeline.over_accounted


def test_more_accounted_than_wall_clamps_other_and_is_flagged() -> None:
    timeline = learner_timeline({WALL: 0.010, "Perf/learning_time": 0.012}, "sac")
    percents = _percents(timeline.rows)
    assert percents["Other"] == 0.0
    assert percents["Iter Wall"] == 100.0
    assert percents["Learning"] == pytest.approx(120.0)
    assert timeline.accounted_percent == pytest.approx(120.0)
    assert timeline.over_accounted


@pytest.mark.parametrize("excess", [1e-12, 0.001, 0.004])
def test_rounding_is_no_overlap(excess: float) -> None:
    values = {WALL: 0.010, "Perf/learning_time": 0.010 * (1 + excess)}
    assert not learner_timeline(values, "sac").over_accounted


def test_details_are_never_added_up() -> None:
    values = {
        WALL: 0.010,
        "Perf/learner_inference_ms": 4.0,
        "Perf/learner_inference_h2d_ms": 1.0,
        "Perf/learner_inference_forward_ms": 2.0,
        "Perf/learner_inference_d2h_ms": 1.0,
        "Perf/replay_ingress_h2d_submit_ms": 50.0,
    }
    timeline = learner_timeline(values, "sac")
    assert timeline.accounted_ms == 4.0
    assert _percents(timeline.rows) == pytest.approx(
        {"Inference": 40.0, "Other": 60.0, "Iter Wall": 100.0}
    )


def test_phases_of_another_algorithm_are_no_rows_and_no_time() -> None:
    values = {
        WALL: 0.010,
        "Perf/learning_time": 0.006,
        "Perf/learner_replay_stage_ms": 3.0,
        "Perf/learner_weight_publish_ms": 3.0,
    }
    timeline = learner_timeline(values, "sac")
    assert _percents(timeline.rows) == pytest.approx(
        {"Learning": 60.0, "Other": 40.0, "Iter Wall": 100.0}
    )


def test_without_a_measured_wall_the_wall_is_what_is_accounted() -> None:
    values = {"Perf/learning_time": 0.006, "Perf/learner_replay_sample_ms": 2.0}
    timeline = learner_timeline(values, "sac")
    assert timeline.wall_ms == pytest.approx(8.0)
    assert _percents(timeline.rows) == pytest.approx(
        {"Replay Sample": 25.0, "Learning": 75.0, "Other": 0.0, "Iter Wall": 100.0}
    )
    assert learner_other_ms(values, "sac") is None


def test_other_is_clamped_per_update_and_then_averaged() -> None:
    updates = [
        {WALL: 0.010, "Perf/learning_time": 0.012},
        {WALL: 0.010, "Perf/learning_time": 0.006},
    ]
    others = [learner_other_ms(update, "sac") for update in updates]
    assert others == pytest.approx([0.0, 4.0])
    means = {WALL: 0.010, "Perf/learning_time": 0.009}
    timeline = learner_timeline(means, "sac", other_ms=2.0)
    assert _percents(timeline.rows)["Other"] == pytest.approx(20.0)


def test_an_unknown_algorithm_shows_the_phases_that_it_reports() -> None:
    values = {WALL: 0.010, "Perf/learner_replay_stage_ms": 1.0, "Perf/learning_time": 0.006}
    assert set(_percents(learner_timeline(values, "td3").rows)) == {
        "Replay Stage",
        "Learning",
        "Other",
        "Iter Wall",
    }


def test_a_wall_of_zero_has_no_percentages() -> None:
    timeline = learner_timeline({WALL: 0.0}, "sac")
    assert {row.percent for row in timeline.rows} == {None}
    assert timeline.accounted_percent is None


def test_a_value_that_is_not_a_number_stays_one() -> None:
    timeline = learner_timeline({WALL: 0.010, "Perf/learning_time": math.nan}, "sac")
    assert all(math.isnan(row.ms or 0) for row in timeline.rows[:2])
    assert timeline.rows[-1].ms == pytest.approx(10.0)
    assert not timeline.over_accounted


def test_quiet_rows_of_the_collector_appear_from_one_percent_on() -> None:
    timeline = collector_timeline(CYCLE, "sac")
    assert timeline.cycle_ms == pytest.approx(100.0)
    assert _percents(timeline.rows) == pytest.approx(
        {
            "Learner Action Wait": 60.0,
            "Env Step": 30.0,
            "Transition Extract": 1.0,
            "Replay Write": 8.0,
        }
    )


def test_core_rows_stay_however_short() -> None:
    values = {**CYCLE, "Perf/collector_replay_write_ms": 0.1}
    assert _percents(collector_timeline(values, "sac").rows)["Replay Write"] == pytest.approx(
        0.1 / 92.1 * 100
    )


def test_details_of_the_step_share_the_cycle_as_denominator() -> None:
    values = {
        **CYCLE,
        "Perf/collector_env_step_backend_ms": 25.0,
        "Perf/collector_env_step_reset_done_ms": 0.5,
    }
    rows = collector_timeline(values, "sac").rows
    assert [row.label for row in rows] == [
        "Learner Action Wait",
        "Env Step",
        "Backend Step",
        "Transition Extract",
        "Replay Write",
    ]
    assert rows[2].detail
    assert rows[2].percent == pytest.approx(25.0)


def test_all_rows_of_a_collector_come_in_the_documents_order() -> None:
    values = {**CYCLE, "Perf/collector_inference_request_ms": 5.0}
    values |= {
        f"Perf/collector_{name}_ms": 5.0 for name in ("transition_extract", "metrics_publish")
    }
    for name in ("action_validate", "apply_action", "action_backend"):
        values[f"Perf/collector_env_step_{name}_ms"] = 2.0
    for name in ("backend", "update_state", "reset_done"):
        values[f"Perf/collector_env_step_{name}_ms"] = 3.0
    assert [row.label for row in collector_timeline(values, "sac").rows] == [
        "Inference Request",
        "Learner Action Wait",
        "Env Step",
        "Action Validate",
        "Apply Action",
        "Action+Backend",
        "Backend Step",
        "Update State",
        "Reset Done",
        "Transition Extract",
        "Replay Write",
        "Metrics Publish",
    ]


def test_the_cycle_needs_its_four_phases_and_takes_the_other_two_when_present() -> None:
    four = {tag: ms for tag, ms in CYCLE.items() if "extract" not in tag and "publish" not in tag}
    assert collector_cycle_ms(four, "sac") == pytest.approx(98.3)
    assert collector_cycle_ms(CYCLE, "sac") == pytest.approx(100.0)
    for missing in four:
        values = {tag: ms for tag, ms in CYCLE.items() if tag != missing}
        assert collector_cycle_ms(values, "sac") is None
        shown = collector_timeline(values, "sac").rows
        assert [row.label for row in shown] == ["Learner Action Wait", "Env Step", "Replay Write"]
        assert {row.percent for row in shown} == {None}


def test_an_appo_collector_shows_milliseconds_without_percentages() -> None:
    values = {
        "Perf/collector_mlp_infer_ms": 0.4,
        "Perf/collector_env_step_ms": 2.0,
        "Perf/collection_time": 0.25,
        "Perf/collector_replay_write_ms": 9.0,
    }
    timeline = collector_timeline(values, "appo")
    assert timeline.cycle_ms is None
    assert [(row.label, row.ms, row.percent) for row in timeline.rows] == [
        ("MLP Infer", 0.4, None),
        ("Env Step", 2.0, None),
        ("Rollout Wall", 250.0, None),
    ]


def test_before_the_first_report_a_collector_has_no_rows() -> None:
    assert collector_timeline({WALL: 0.01}, "sac").rows == ()
    assert collector_timeline({}, "appo").rows == ()
    assert collector_timeline(CYCLE, "ppo").rows == ()


def test_the_active_rate_leaves_the_wait_for_the_learner_out() -> None:
    rate = collector_active_rate(CYCLE, "sac", environments=32)
    assert rate == pytest.approx(32 / 0.0383)


def test_the_active_rate_of_appo_is_that_of_the_rollout() -> None:
    values = {"Perf/collection_time": 0.25}
    rate = collector_active_rate(values, "appo", environments=32, steps_per_env=24)
    assert rate == pytest.approx(32 * 24 / 0.25)
    assert collector_active_rate({}, "appo", environments=32, steps_per_env=24) is None


def test_the_active_rate_needs_all_its_parts() -> None:
    values = {tag: ms for tag, ms in CYCLE.items() if "replay_write" not in tag}
    assert collector_active_rate(values, "sac", environments=32) is None
    assert collector_active_rate(CYCLE, "ppo", environments=32) is None


@pytest.mark.parametrize("algorithm", ["ppo", "somebody_elses"])
def test_the_name_that_rsl_rl_had_for_its_collection_before_3_2_is_the_same_row(
    algorithm: str,
) -> None:
    earlier, now = "Perf/collection time", "Perf/collection_time"
    values = {WALL: 0.1, "Perf/learning_time": 0.03, earlier: 0.06}
    timeline = learner_timeline(values, algorithm)
    rows = {row.label: (row.tag, row.ms) for row in timeline.rows}
    assert rows["Collection"] == (earlier, pytest.approx(60.0))
    assert rows["Other"] == ("", pytest.approx(10.0))
    assert learner_other_ms(values, algorithm) == pytest.approx(10.0)
    both = {row.label: row.tag for row in learner_timeline({**values, now: 0.05}, algorithm).rows}
    assert both["Collection"] == now
    # What has no collection in its iteration has none by another name.
    assert "Collection" not in {row.label for row in learner_timeline(values, "sac").rows}
