"""The window of two seconds by itself: which updates are in it, and in the one before."""

from __future__ import annotations

import numpy as np
import pytest

from unilab_sidecar.values.window import WINDOW_NS, Window

TAGS = ("x",)
TIMES = ("Perf/iteration_time", "Perf/learning_time")


def add(window: Window, iteration: int, at_ns: int, value: float = 1.0) -> None:
    window.add(1, iteration, at_ns, TAGS, np.array([value]))


def test_it_lasts_two_seconds_and_its_edge_is_inside() -> None:
    window = Window()
    assert WINDOW_NS == 2_000_000_000
    for number, at_ns in enumerate((0, 1, 2_000_000_000, 2_000_000_001)):
        add(window, number, at_ns, float(number))
    assert len(window) == 3
    assert window.means() == {"x": 2.0}
    assert window.earlier_means() == {"x": 0.0}


def test_updates_of_one_instant_are_all_in_it() -> None:
    window = Window()
    for number in range(4):
        add(window, number, 7, float(number))
    assert (len(window), window.means()) == (4, {"x": 1.5})


def test_the_window_before_lasts_as_long_and_goes_with_another_clock() -> None:
    window = Window()
    for second in range(20):
        add(window, second, second * 1_000_000_000, float(second))
    assert window.means() == {"x": 18.0}
    assert window.earlier_means() == {"x": 15.0}
    add(window, 20, 5, 99.0)
    assert (len(window), window.means(), window.earlier_means()) == (1, {"x": 99.0}, {})


def test_what_comes_late_joins_its_update_and_its_timing() -> None:
    window = Window()
    window.add(1, 1, 0, TIMES[:1], np.array([0.1]))
    first = window.learner_timeline("ppo", window.means())
    assert first is not None
    window.supplement(1, 1, TIMES[1:], np.array([0.09]))
    window.supplement(2, 1, TAGS, np.array([5.0]))
    second = window.learner_timeline("ppo", window.means())
    assert second is not None
    others = [[row.ms for row in one.rows if row.label == "Other"] for one in (first, second)]
    assert others[1] == [pytest.approx(10.0)]
    assert others[0] != others[1]
    assert window.means().keys() == set(TIMES)


def test_of_updates_whose_phases_exceed_their_wall_the_worst_is_told() -> None:
    window = Window()
    for number, learning_s in enumerate((0.05, 0.12, 0.13)):
        window.add(1, number, number, TIMES, np.array([0.1, learning_s]))
    timeline = window.learner_timeline("ppo", window.means())
    assert timeline is not None
    assert timeline.over_accounted
    assert timeline.accounted_percent == pytest.approx(130.0)


def test_a_tags_mean_is_over_the_updates_that_have_it() -> None:
    window = Window()
    window.add(1, 1, 0, ("x", "y"), np.array([1.0, 10.0]))
    window.add(1, 2, 1, ("x",), np.array([3.0]))
    window.add(1, 3, 2, ("x",), np.array([5.0]))
    assert window.means() == {"x": 3.0, "y": 10.0}
