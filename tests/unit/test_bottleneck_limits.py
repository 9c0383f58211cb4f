"""The numbers of the bottleneck's rules, each from both sides: none moves without a test."""

from __future__ import annotations

import pytest
from bottleneck_runs import rule_of, sac, with_share

from unilab_schema.bottleneck import Rule, bottleneck

LIMITS: dict[Rule, tuple[float, float]] = {
    "collector": (25.0, 20.0),
    "learner": (98.0, 97.5),
    "inference": (25.0, 20.0),
    "prefetch": (10.0, 8.0),
    "ingress": (25.0, 20.0),
    "submit": (25.0, 20.0),
}
"""From where on a rule holds, and down to where it stays, in percent of its clock."""
NEAR = 0.05


@pytest.mark.parametrize("rule", LIMITS)
def test_a_rule_holds_from_its_limit_on_and_stays_down_to_the_lower_one(rule: Rule) -> None:
    for limit, shown in zip(LIMITS[rule], (None, rule), strict=True):
        below, exact = with_share(rule, limit - NEAR), with_share(rule, limit)
        assert bottleneck(below, "sac", shown=shown) is None
        assert rule_of(bottleneck(exact, "sac", shown=shown)) == rule


def test_a_learner_that_only_trains_is_told_while_its_collector_waits_nine_tenths() -> None:
    for env_step, expected in ((5.5 - NEAR, "learner"), (5.5 + NEAR, None)):
        values = with_share("learner", 99.0) | sac_collector(env_step)
        assert rule_of(bottleneck(values, "sac")) == expected


def sac_collector(env_step: float) -> dict[str, float]:
    """The cycle alone."""
    values = sac(collector={"env_step": env_step})
    return {tag: value for tag, value in values.items() if tag.startswith("Perf/collector_")}


@pytest.mark.parametrize(("wait", "expected"), [(5.0 - NEAR, "learner"), (5.0 + NEAR, None)])
def test_a_learner_that_waits_a_twentieth_does_more_than_train(
    wait: float, expected: Rule | None
) -> None:
    # Its phases account for more than the wall, as rounded ones may.
    values = with_share("learner", 98.5) | {"Perf/learner_collector_wait_ms": wait}
    assert rule_of(bottleneck(values, "sac")) == expected


@pytest.mark.parametrize(("wait", "expected"), [(5.0 - NEAR, "submit"), (5.0 + NEAR, None)])
def test_a_long_submit_is_told_where_hardly_anybody_waits(
    wait: float, expected: Rule | None
) -> None:
    values = sac(learner={"replay_batch_wait": wait}, replay_ingress_h2d_submit_ms=60.0)
    assert rule_of(bottleneck(values, "sac")) == expected


def test_a_late_collector_that_waits_half_of_its_cycle_is_late_for_another_reason() -> None:
    for env_step, first in (
        (45.5 - NEAR, "whether the collector lives"),
        (45.5 + NEAR, "env step"),
    ):
        values = sac(learner={"collector_wait": 60.0}, collector={"env_step": env_step})
        found = bottleneck(values, "sac")
        assert found is not None
        assert found.look[0] == first


def test_ingress_slots_are_full_from_half_of_them_on() -> None:
    for used, first in ((0.99, "transition post-processing"), (1.0, "ingress slots")):
        slots = {"Train/replay_ingress_depth": 2.0, "Train/replay_ingress_occupancy": used}
        found = bottleneck(with_share("ingress", 60.0) | slots, "sac")
        assert found is not None
        assert found.look[0] == first


def test_another_slice_takes_the_place_of_the_shown_one_when_it_is_a_quarter_larger() -> None:
    for inference, expected in ((50.0 - NEAR, "collector"), (50.0 + NEAR, "inference")):
        values = sac(learner={"collector_wait": 40.0, "inference": inference})
        assert rule_of(bottleneck(values, "sac", shown="collector")) == expected
    # Writing is why the collector is late, and stays as its lateness does.
    writing = {"replay_write": 60.0}
    for inference, expected in ((50.0 - NEAR, "ingress"), (50.0 + NEAR, "inference")):
        values = sac(learner={"collector_wait": 40.0, "inference": inference}, collector=writing)
        assert rule_of(bottleneck(values, "sac", shown="ingress")) == expected


@pytest.mark.parametrize(
    ("shown", "write", "step", "expected"),
    [
        (None, 40.0 - NEAR, 40.0, "collector"),
        (None, 40.0 + NEAR, 40.0, "ingress"),
        ("ingress", 40.0, 50.0 - NEAR, "ingress"),
        ("ingress", 40.0, 50.0 + NEAR, "collector"),
        ("collector", 50.0 - NEAR, 40.0, "collector"),
        ("collector", 50.0 + NEAR, 40.0, "ingress"),
    ],
)
def test_writing_is_why_a_collector_is_late_if_it_takes_longer_than_stepping(
    shown: Rule | None, write: float, step: float, expected: Rule
) -> None:
    values = sac(
        learner={"collector_wait": 60.0}, collector={"replay_write": write, "env_step": step}
    )
    assert rule_of(bottleneck(values, "sac", shown=shown)) == expected


def test_a_late_collector_stays_down_to_its_lower_limit_while_its_writing_is_shown() -> None:
    for wait, expected in ((20.0 - NEAR, "prefetch"), (20.0, "ingress")):
        values = sac(
            learner={"collector_wait": wait, "replay_batch_wait": 24.0},
            collector={"replay_write": 60.0, "env_step": 1.0},
        )
        assert rule_of(bottleneck(values, "sac", shown="ingress")) == expected


def test_numbers_of_slots_that_no_ingress_has_are_not_told() -> None:
    for depth, is_told in ((999_999.0, True), (1e6, False)):
        slots = {"Train/replay_ingress_depth": depth, "Train/replay_ingress_occupancy": 1.0}
        found = bottleneck(with_share("ingress", 60.0) | slots, "sac")
        assert found is not None
        assert ("slots used" in found.text) is is_told
