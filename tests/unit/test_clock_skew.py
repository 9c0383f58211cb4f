"""A source's clock, measured by messages some of which had to wait."""

from __future__ import annotations

import pytest

from unilab_metrics.aggregate.receiving.skew import ClockSkew

S = 1_000_000_000


def heard(skew: ClockSkew, at_s: float, *, ahead_s: float = 0.0, waited_s: float = 0.001) -> float:
    """A message that came at ``at_s`` of our clocks."""
    sent_s = at_s - waited_s + ahead_s
    skew.heard(round(sent_s * S), round(at_s * S), round(at_s * S))
    return skew.seconds


@pytest.mark.parametrize("ahead_s", [90.0, -90.0, 0.0])
def test_a_message_that_waited_says_nothing_about_the_clock(ahead_s: float):
    skew = ClockSkew()
    assert skew.seconds == 0.0
    for tick in range(100):
        heard(skew, tick / 10, ahead_s=ahead_s)
    # The aggregator was stopped; what has piled up comes at once, and then no more.
    for waited_s in (60.0, 59.0, 0.5):
        assert heard(skew, 70.0, ahead_s=ahead_s, waited_s=waited_s) == pytest.approx(
            ahead_s, abs=0.01
        )


@pytest.mark.parametrize("step_s", [3600.0, -3600.0])
def test_a_clock_that_jumps_is_believed_within_ten_seconds(step_s: float):
    skew = ClockSkew()
    for tick in range(100):
        heard(skew, tick / 10)
    found = [heard(skew, 10 + tick / 10, ahead_s=step_s) for tick in range(110)]
    assert found[-1] == pytest.approx(step_s, abs=0.01)
