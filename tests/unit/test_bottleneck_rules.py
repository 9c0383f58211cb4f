"""The diagnosis table as rules: each at its threshold, which of several, and silence."""

from __future__ import annotations

import math
from typing import get_args

import pytest
from bottleneck_runs import rule_of, sac, with_share
from hypothesis import given
from hypothesis import strategies as st

from unilab_schema.bottleneck import THRESHOLDS, Rule, bottleneck
from unilab_schema.phases import collector_phases, learner_phases

RULES: tuple[Rule, ...] = get_args(Rule)
TAGS = [
    phase.tag
    for algorithm in ("sac", "appo", "ppo")
    for phase in (*learner_phases(algorithm), *collector_phases(algorithm))
] + ["Perf/iteration_time", "Train/replay_ingress_depth", "Train/replay_ingress_occupancy"]


def appo(wait_ms: float) -> dict[str, float]:
    return {
        "Perf/learner_collector_wait_ms": wait_ms,
        "Perf/learner_replay_stage_ms": 60.0 - wait_ms,
        "Perf/learning_time": 0.04,
        "Perf/iteration_time": 0.1,
        "Perf/collector_mlp_infer_ms": 3.0,
        "Perf/collector_env_step_ms": 2.0,
        "Perf/collection_time": 0.12,
    }


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_holds_from_its_threshold_on(rule: Rule) -> None:
    high = THRESHOLDS[rule].high
    assert bottleneck(with_share(rule, high - 0.2), "sac") is None
    for percent in (high, high + 0.2):
        found = bottleneck(with_share(rule, percent), "sac")
        assert found is not None
        assert found.rule == rule
        assert found.share.percent == pytest.approx(percent)
        assert found.look


@pytest.mark.parametrize("rule", RULES)
def test_what_is_shown_stays_down_to_its_lower_threshold(rule: Rule) -> None:
    keep = THRESHOLDS[rule].keep
    assert rule_of(bottleneck(with_share(rule, keep), "sac", shown=rule)) == rule
    assert bottleneck(with_share(rule, keep - 0.2), "sac", shown=rule) is None
    other: Rule = "submit" if rule != "submit" else "collector"
    assert bottleneck(with_share(rule, keep), "sac", shown=other) is None


@pytest.mark.parametrize("rule", RULES)
def test_only_what_costs_no_time_is_said_to_cost_none(rule: Rule) -> None:
    found = bottleneck(with_share(rule, 99.0 if rule == "learner" else 60.0), "sac")
    assert found is not None
    is_free = rule in ("submit", "ingress")
    assert found.costs_time is not is_free
    assert ("no iteration time lost" in found.text) is is_free


def test_the_line_has_its_numbers_and_where_to_look_first() -> None:
    found = bottleneck(sac(learner={"collector_wait": 61.0}, collector={"env_step": 80.0}), "sac")
    assert found is not None
    assert found.text == (
        "Collector Wait 61.0 ms, 61.0 % of Iter Wall; Env Step 80.0 ms, 80.0 % of cycle; "
        "look at env step, transition post-processing, whether the collector lives, IPC"
    )
    found = bottleneck(sac(replay_ingress_h2d_submit_ms=52.0), "sac")
    assert found is not None
    assert found.text == (
        "Replay H2D Submit 52.0 ms in the background, as long as 52.0 % of Iter Wall; "
        "Replay Batch Wait 0.10 ms, "
        "0.1 % of Iter Wall; no iteration time lost; "
        "look at Perfetto, GPU copy, ingress commit, overlaps"
    )


def test_the_largest_slice_of_the_wall_is_told() -> None:
    for inference, expected in ((30.0, "collector"), (50.0, "inference")):
        values = sac(learner={"collector_wait": 40.0, "inference": inference})
        assert rule_of(bottleneck(values, "sac")) == expected


def test_what_is_shown_gives_way_only_to_what_is_clearly_larger() -> None:
    for inference, expected in ((45.0, "collector"), (55.0, "inference")):
        values = sac(learner={"collector_wait": 40.0, "inference": inference})
        assert rule_of(bottleneck(values, "sac", shown="collector")) == expected


def test_a_collector_that_is_late_because_it_writes_is_told_of_its_writing() -> None:
    late = {"collector_wait": 60.0}
    for write, step, expected in (
        (70.0, 10.0, "ingress"), (30.0, 50.0, "collector"), (24.0, 1.0, "collector"),
    ):  # fmt: skip
        values = sac(learner=late, collector={"replay_write": write, "env_step": step})
        found = bottleneck(values, "sac")
        assert rule_of(found) == expected
        assert found is not None
        assert found.costs_time


def test_full_ingress_slots_are_in_the_evidence() -> None:
    values = with_share("ingress", 60.0) | {
        "Train/replay_ingress_occupancy": 1.9,
        "Train/replay_ingress_depth": 2.0,
    }
    found = bottleneck(values, "sac")
    assert found is not None
    assert "1.9 of 2 ingress slots used" in found.text


def test_free_ingress_slots_are_not_what_to_look_at_first() -> None:
    depth = {"Train/replay_ingress_depth": 2.0}
    for used, first in ((0.0, "transition post-processing"), (1.9, "ingress slots")):
        found = bottleneck(
            with_share("ingress", 60.0) | depth | {"Train/replay_ingress_occupancy": used}, "sac"
        )
        assert found is not None
        assert found.look[0] == first
    unknown = bottleneck(with_share("ingress", 60.0), "sac")
    assert unknown is not None
    assert unknown.look[0] == "ingress slots"


def test_a_long_submit_stays_on_the_screen_until_the_wait_for_batches_takes_its_place() -> None:
    for wait, rule, costs_time in (
        (4.0, "submit", False), (7.0, "submit", None), (11.0, "prefetch", True)
    ):  # fmt: skip
        values = sac(learner={"replay_batch_wait": wait}, replay_ingress_h2d_submit_ms=60.0)
        found = bottleneck(values, "sac", shown="submit")
        assert found is not None
        assert (found.rule, found.costs_time) == (rule, costs_time)


def test_writing_costs_time_once_the_learner_waits_for_it() -> None:
    writes = {"replay_write": 60.0}
    for wait, expected in ((4.9, False), (5.0, True)):
        found = bottleneck(sac(learner={"collector_wait": wait}, collector=writes), "sac")
        assert found is not None
        assert (found.rule, found.costs_time) == ("ingress", expected)


def test_slow_inference_is_not_blamed_on_the_learner_that_the_collector_waits_for() -> None:
    values = sac(learner={"inference": 90.0}, collector={"env_step": 1.0}) | {
        "Perf/learner_inference_h2d_ms": 3.0,
        "Perf/learner_inference_forward_ms": 2.0,
        "Perf/learner_inference_d2h_ms": 85.0,
    }
    found = bottleneck(values, "sac")
    assert found is not None
    assert found.rule == "inference"
    assert found.look == ("D2H 85.0 ms", "H2D 3.00 ms", "forward 2.00 ms")


def test_a_learner_that_trains_all_the_time_needs_a_collector_that_waits() -> None:
    values = with_share("learner", 99.0)
    assert rule_of(bottleneck(values, "sac")) == "learner"
    busy = values | {"Perf/collector_env_step_ms": 40.0}
    assert bottleneck(busy, "sac") is None
    del values["Perf/collector_learner_action_wait_ms"]
    assert bottleneck(values, "sac") is None


def test_a_long_submit_is_nothing_of_its_own_where_the_learner_loses_time() -> None:
    assert rule_of(bottleneck(sac(replay_ingress_h2d_submit_ms=90.0), "sac")) == "submit"
    for lost, expected in (({"replay_batch_wait": 30.0}, "prefetch"),
                           ({"collector_wait": 30.0}, "collector")):  # fmt: skip
        values = sac(learner=lost, replay_ingress_h2d_submit_ms=90.0)
        assert rule_of(bottleneck(values, "sac")) == expected
    # Nobody can say then that no time is lost.
    assert bottleneck(sac(learner={"replay_batch_wait": 7.0}, replay_ingress_h2d_submit_ms=90.0),
                      "sac") is None  # fmt: skip


def test_a_late_collector_that_is_not_busy_is_looked_for_elsewhere() -> None:
    busy = bottleneck(sac(learner={"collector_wait": 60.0}, collector={"env_step": 80.0}), "sac")
    idle = bottleneck(sac(learner={"collector_wait": 60.0}, collector={"env_step": 1.0}), "sac")
    silent = {tag: value for tag, value in sac(learner={"collector_wait": 60.0}).items()
              if "/collector_" not in tag}  # fmt: skip
    gone = bottleneck(silent, "sac")
    assert busy is not None
    assert idle is not None
    assert gone is not None
    assert busy.look[0] == "env step"
    assert idle.look[0] == gone.look[0] == "whether the collector lives"


def test_a_healthy_run_is_told_nothing() -> None:
    for algorithm in ("sac", "fast_sac", "flash_sac"):
        assert bottleneck(sac(), algorithm) is None
    assert bottleneck(appo(1.0), "appo") is None


def test_an_appo_run_is_told_of_a_late_collector_in_milliseconds() -> None:
    assert bottleneck(appo(24.9), "appo") is None
    found = bottleneck(appo(30.0), "appo")
    assert found is not None
    assert found.rule == "collector"
    assert found.text == (
        "Collector Wait 30.0 ms, 30.0 % of Iter Wall; Rollout Wall 120.0 ms; MLP Infer 3.00 ms; "
        "look at policy inference, env step, whether the collector lives, IPC"
    )


def test_an_on_policy_run_is_told_nothing_whatever_its_tags_say() -> None:
    for rule in RULES:
        assert bottleneck(with_share(rule, 99.0), "rsl_rl_ppo") is None


def test_of_an_algorithm_without_a_profile_the_slices_of_the_wall_are_told() -> None:
    found = [rule_of(bottleneck(with_share(rule, 60.0), "dreamer")) for rule in RULES]
    assert found == ["collector", None, "inference", "prefetch", None, "submit"]


def test_without_a_measured_wall_the_accounted_time_is_the_wall() -> None:
    values = sac(learner={"collector_wait": 60.0})
    del values["Perf/iteration_time"]
    found = bottleneck(values, "sac")
    assert found is not None
    assert found.share.percent == pytest.approx(60.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 0.0, -1.0])
def test_a_wall_that_is_none_has_no_bottleneck(bad: float) -> None:
    for rule in RULES:
        assert bottleneck(with_share(rule, 60.0) | {"Perf/iteration_time": bad}, "sac") is None


@pytest.mark.parametrize("rule", RULES)
def test_a_share_that_is_no_number_is_as_good_as_none(rule: Rule) -> None:
    percent = 99.0 if rule == "learner" else 60.0
    tag = {
        "collector": "Perf/learner_collector_wait_ms", "learner": "Perf/learning_time",
        "inference": "Perf/learner_inference_ms", "prefetch": "Perf/learner_replay_batch_wait_ms",
        "ingress": "Perf/collector_replay_write_ms", "submit": "Perf/replay_ingress_h2d_submit_ms",
    }[rule]  # fmt: skip
    for bad in (math.nan, math.inf):
        assert bottleneck(with_share(rule, percent) | {tag: bad}, "sac") is None
    without = with_share(rule, percent)
    del without[tag]
    assert bottleneck(without, "sac") is None


@given(
    st.dictionaries(st.sampled_from(TAGS), st.floats()),
    st.sampled_from(["sac", "appo", "ppo", "other", ""]),
    st.sampled_from([None, *RULES]),
)
def test_no_values_make_a_rule_raise(
    values: dict[str, float], algorithm: str, shown: Rule | None
) -> None:
    found = bottleneck(values, algorithm, shown=shown)
    if found is not None:
        assert found.text
        assert found.share.brief(short=True)
        assert found.share.percent is not None
        assert not math.isnan(found.share.percent)
