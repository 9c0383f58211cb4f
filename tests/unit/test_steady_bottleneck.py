"""A bottleneck on the screen neither comes nor stays without reason."""

from __future__ import annotations

from collections.abc import Mapping

from bottleneck_runs import rule_of, sac, with_share

from unilab_schema.bottleneck import Rule
from unilab_sidecar.values.steady_bottleneck import SteadyBottleneck

HEALTHY = sac()
LATE, SLOW = with_share("collector", 60.0), with_share("inference", 60.0)


def shown(
    steady: SteadyBottleneck, means: Mapping[str, float], before: Mapping[str, float]
) -> Rule | None:
    return rule_of(steady.now(means, lambda: before, "sac"))


def test_both_windows_have_to_say_the_same() -> None:
    steady = SteadyBottleneck()
    assert shown(steady, LATE, HEALTHY) is None
    assert shown(steady, LATE, SLOW) is None
    assert shown(steady, LATE, {}) is None
    assert shown(steady, LATE, LATE) == "collector"


def test_what_is_shown_asks_the_window_before_no_more_and_goes_at_once() -> None:
    steady = SteadyBottleneck()
    assert shown(steady, LATE, LATE) == "collector"
    assert shown(steady, LATE, HEALTHY) == "collector"
    assert shown(steady, with_share("collector", 21.0), HEALTHY) == "collector"
    assert shown(steady, HEALTHY, LATE) is None
    # It begins as if it had never been there.
    assert shown(steady, LATE, HEALTHY) is None
    assert shown(steady, with_share("collector", 21.0), LATE) is None


def test_another_one_takes_its_place_once_both_windows_say_so() -> None:
    steady = SteadyBottleneck()
    assert shown(steady, LATE, LATE) == "collector"
    assert shown(steady, SLOW, LATE) is None
    assert shown(steady, SLOW, SLOW) == "inference"


def test_another_attempt_begins_anew() -> None:
    steady = SteadyBottleneck()
    assert shown(steady, LATE, LATE) == "collector"
    steady.clear()
    assert shown(steady, LATE, HEALTHY) is None
