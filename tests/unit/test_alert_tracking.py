"""For how long a condition has held, also over a clock that begins anew."""

from __future__ import annotations

import numpy as np

from unilab_metrics.aggregate.folding.alert_tracking import Hold, Tracking

S = 1_000_000_000
PLACE = np.array([0], dtype=np.intp)


def ripe(tracking: Tracking, at_s: int, number: int) -> bool:
    """Whether the condition, which holds, is due with this update."""
    step = tracking.step(PLACE, np.array([True]), at_s * S, number)
    return bool(len(step.ripe))


def watching(hold: Hold) -> Tracking:
    tracking = Tracking(hold)
    tracking.grow([0])
    return tracking


def test_a_condition_is_due_when_it_has_lasted_and_not_before() -> None:
    tracking = watching(Hold(30 * S, 1, 3))
    assert [ripe(tracking, at_s, at_s) for at_s in (1000, 1029, 1030)] == [False, False, True]


def test_a_condition_is_due_with_its_last_update_and_not_before() -> None:
    tracking = watching(Hold(0, 3, 3))
    assert [ripe(tracking, 7, number) for number in range(3)] == [False, False, True]


def test_a_clock_that_begins_anew_makes_a_condition_neither_old_nor_young_for_ever() -> None:
    tracking = watching(Hold(30 * S, 1, 3))
    told = [ripe(tracking, at_s, number) for number, at_s in enumerate((1000, 1020, 5, 34, 35))]
    assert told == [False, False, False, False, True]
