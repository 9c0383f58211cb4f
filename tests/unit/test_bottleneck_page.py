"""``docs/bottleneck.md`` has every rule with its thresholds, and a word on every place to look at."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bottleneck_runs import rule_of, sac, with_share

from unilab_schema.bottleneck import LOW_PERCENT, THRESHOLDS, WAITING_PERCENT, Rule, bottleneck

PAGE = (Path(__file__).parents[2] / "docs" / "bottleneck.md").read_text("utf-8")
ROWS = [line.split(" | ") for line in PAGE.splitlines() if line.startswith("| **")]
RULES: dict[Rule, str] = {
    "collector": "Collector Wait",
    "inference": "Inference",
    "prefetch": "Replay Batch Wait",
    "learner": "Learning",
    "ingress": "Replay Write",
    "submit": "Replay H2D Submit",
}


def row_of(rule: Rule) -> list[str]:
    (found,) = [row for row in ROWS if row[0].startswith(f"| **{RULES[rule]}**")]
    return found


def test_the_page_has_a_row_for_each_rule() -> None:
    assert set(RULES) == set(THRESHOLDS)
    assert len(ROWS) == len(RULES)
    assert f"for {WAITING_PERCENT:g} % of its cycle" in row_of("learner")[0]
    assert f"less than {LOW_PERCENT:g} %" in row_of("learner")[0]


@pytest.mark.parametrize("rule", THRESHOLDS)
def test_thresholds_and_places_are_those_of_the_rule(rule: Rule) -> None:
    _, limits, _, places = row_of(rule)
    threshold = THRESHOLDS[rule]
    assert limits == f"{threshold.high:g} %, {threshold.keep:g} %"
    found = bottleneck(with_share(rule, threshold.high + 1), "sac")
    assert rule_of(found) == rule
    assert found is not None
    for place in found.look:
        assert re.sub(r" [\d.,]+ ms$", "", place) in places


def test_what_the_page_says_of_ingress_slots_to_spare_is_so() -> None:
    full = bottleneck(with_share("ingress", 40.0), "sac")
    assert full is not None
    free = bottleneck(
        {
            **with_share("ingress", 40.0),
            "Train/replay_ingress_depth": 8.0,
            "Train/replay_ingress_occupancy": 1.0,
        },
        "sac",
    )
    assert free is not None
    assert free.look != full.look
    for place in (*free.look, *full.look):
        assert place in row_of("ingress")[3]
    assert bottleneck(sac(), "sac") is None
