"""Means of many tags at once, whatever a training reports."""

from __future__ import annotations

import math
import sys
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from series_records import picture, update

from unilab_sidecar.values.row_means import Rows, mean, merged
from unilab_sidecar.values.window import Window

GREATEST = sys.float_info.max
FINITE = st.floats(allow_nan=False, allow_infinity=False)
ANY = FINITE | st.sampled_from([math.nan, math.inf, -math.inf, GREATEST, -GREATEST])


@given(st.lists(st.tuples(FINITE, FINITE), min_size=1))
@example([(GREATEST, -GREATEST)] * 3)
@example([(-1.7e308, 1.75e308), (-1.7e308, 1.7e308)] * 7)
def test_a_mean_of_finite_values_is_one_of_their_range(rows: list[tuple[float, float]]) -> None:
    table = np.array(rows)
    low, high, means = table.min(axis=0), table.max(axis=0), mean(list(table))
    # A sum that is no larger than a float is left as it is, to the last bit.
    slack = 1e-15 * len(rows) * np.abs(table).max(axis=0)
    assert np.isfinite(means).all()
    assert (low / 2 - slack <= means / 2).all()
    assert (means / 2 <= high / 2 + slack).all()


@given(st.lists(st.tuples(ANY, st.sampled_from(["first", "second"])), min_size=1))
@example([(GREATEST, "first"), (GREATEST, "second")] * 3)
@example([(GREATEST, "first")] * 2 + [(-GREATEST, "second")] * 2)
@example([(GREATEST, "second"), (GREATEST, "second"), (-math.inf, "second")])
def test_the_mean_over_two_key_sets_is_as_honest(values: list[tuple[float, str]]) -> None:
    """The tag ``x`` is in both of them, at different places."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        window = Window()
        key_sets = {"first": ("x", "a"), "second": ("b", "c", "x")}
        for number, (value, which) in enumerate(values):
            tags = key_sets[which]
            window.add(
                1, number, number, tags, np.array([value if t == "x" else 2.0 for t in tags])
            )
        means = window.means()
    plain = [value for value, _ in values]
    assert {value for tag, value in means.items() if tag != "x"} == {2.0}
    if all(math.isfinite(value) for value in plain):
        exact = sum(map(Fraction, plain)) / len(plain)
        assert abs(Fraction(means["x"]) - exact) <= Fraction(max(map(abs, plain))) / 10**12
    elif any(map(math.isnan, plain)) or {math.inf, -math.inf} <= set(plain):
        assert math.isnan(means["x"])
    else:
        assert math.isinf(means["x"])


def test_places_that_only_one_part_has_keep_their_own_mean() -> None:
    first = Rows(np.array([0, 1]), [np.array([GREATEST, 1.0]), np.array([GREATEST, 3.0])])
    second = Rows(np.array([0, 2]), [np.array([GREATEST, math.nan])])
    means = merged([first, second], 3)
    assert means[:2].tolist() == [GREATEST, 2.0]
    assert math.isnan(means[2])


def test_the_display_shows_large_finite_values_as_they_are() -> None:
    shown = picture(
        *[
            update(
                n + 1,
                {"Loss/huge": 1.7e308 + n % 2 * 5e306, "Train/mean_reward": 1e308},
                sealed_s=n * 0.1,
            )
            for n in range(5)
        ]
    )
    assert shown.readings["Loss/huge"].value == pytest.approx(1.72e308)
    assert shown.rewards.mean is not None
    assert shown.rewards.mean.value == pytest.approx(1e308)


def test_times_of_any_length_have_a_finite_mean() -> None:
    window = Window()
    for number in range(5):
        times = ("Perf/iteration_time", "Perf/learning_time")
        window.add(1, number, number, times, np.array([1e305, 1e304]))
    timeline = window.learner_timeline("ppo", window.means())
    assert timeline is not None
    assert [row.ms for row in timeline.rows if row.label in {"Other", "Iter Wall"}] == [
        pytest.approx(9e307),
        pytest.approx(1e308),
    ]
