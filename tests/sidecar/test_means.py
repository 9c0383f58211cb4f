"""Means of whatever a training reports."""

from __future__ import annotations

import math
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from unilab_sidecar.charting import block_charts as charts
from unilab_sidecar.values.means import mean

GREATEST = sys.float_info.max


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
@example([GREATEST] * 3)
@example([-GREATEST] * 7)
def test_a_mean_of_finite_values_is_one_of_their_range(values: list[float]):
    assert min(values) <= mean(values) <= max(values)


def test_no_value_is_rounded_away_by_greater_ones():
    assert mean([1e16, 1.0, -1e16]) == 1 / 3
    assert mean([GREATEST, GREATEST, -GREATEST]) == pytest.approx(GREATEST / 3)


def test_what_is_no_number_is_its_own_mean():
    assert mean([math.inf, 1.0]) == math.inf
    assert math.isnan(mean([math.nan, 1.0]))
    assert math.isnan(mean([math.inf, -math.inf]))


def test_columns_of_the_greatest_values_are_such_values():
    assert charts.columns([0.0] * 4 + [GREATEST] * 3, 3)[-1] == GREATEST
