"""The marks of a value axis: round, enough of them, evenly spaced where it costs little, and the
data fill the chart."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unilab_sidecar.charting.axes import Scale, Tick, scale_of
from unilab_sidecar.charting.fitting import LABEL_CELLS, Fitted, fitted

MAGNITUDES = st.tuples(
    st.floats(1.0, 9.99), st.integers(-7, 14), st.sampled_from([-1.0, 0.0, 1.0])
).map(lambda parts: parts[0] * 10.0 ** parts[1] * parts[2])
ROWS = st.integers(2, 60)


def on_axis(scale: Scale, value: float) -> float:
    return float(scale.fraction(np.array([value]))[0])


def holds(whole: Scale, found: Fitted, rows: int, down: int) -> None:
    """What is right for every axis."""
    scale, marks = found
    assert all(0 <= row < rows for row in marks)
    assert len(marks) >= (3 if rows >= 6 else 2)
    by_row = [marks[row] for row in sorted(marks)]
    assert [tick.value for tick in by_row] == sorted((t.value for t in by_row), reverse=True)
    labels = [tick.label for tick in by_row]
    assert len(set(labels)) == len(labels)
    assert all(label and len(label) <= LABEL_CELLS for label in labels)
    for end in (whole.low, whole.high):
        assert -1e-6 <= on_axis(scale, end) <= 1 + 1e-6
    for row, tick in marks.items():
        assert -1e-6 <= on_axis(scale, tick.value) <= 1 + 1e-6
        dot = (1 - on_axis(scale, tick.value)) * max(rows * down - 1, 1)
        assert row - 0.6 / down <= dot / down <= row + 1 + 0.6 / down
    if not whole.log:
        assert scale.low >= 0 or whole.low < 0
        assert scale.high <= 0 or whole.high > 0
    filled = on_axis(scale, whole.high) - on_axis(scale, whole.low)
    places = [on_axis(scale, tick.value) for tick in by_row]
    widest = max(above - below for above, below in pairwise(places))
    assert 1 - filled <= min(widest, 0.21) + 1e-6


@settings(max_examples=300, deadline=None)
@given(MAGNITUDES, MAGNITUDES, ROWS, st.sampled_from([1, 4]), st.booleans())
def test_an_axis_is_filled_and_has_marks_enough(one, other, rows, down, log):
    low, high = min(one, other), max(one, other)
    if log:
        low, high = sorted((abs(low) + 1e-13, abs(high) + 1e-13))
    whole = scale_of(low, high, log=log)
    if log or whole.high - whole.low > 1e-6 * max(abs(whole.low), abs(whole.high)):
        holds(whole, fitted(whole, rows, down), rows, down)


@settings(max_examples=100, deadline=None)
@given(MAGNITUDES, st.floats(1e-3, 1e3), ROWS)
def test_marks_of_values_are_multiples_of_a_round_step(low, share, rows):
    whole = scale_of(low, low + (abs(low) or 1.0) * share)
    marks = fitted(whole, rows, 4).marks
    values = [marks[row].value for row in sorted(marks)]
    steps = [before - after for before, after in pairwise(values)]
    assert all(step == pytest.approx(steps[0], rel=1e-6) for step in steps)
    digits = f"{steps[0]:.6e}".split("e")[0]
    if len(values) > 2:
        assert float(digits) in (1, 2, 2.5, 5)
    counts = [value / steps[0] * (1 if len(values) > 2 else 4) for value in values]
    assert all(count == pytest.approx(round(count), abs=1e-3) for count in counts) or rows < 6
    # What is evenly spaced in values differs by a row at most on the screen.
    spaces = [after - before for before, after in pairwise(sorted(marks))]
    assert max(spaces) - min(spaces) <= 1


def test_most_axes_have_rows_that_are_evenly_spaced():
    uneven = 0
    for number in range(200):
        low, width = -37 + number * 0.61, 3.1 * 1.05**number
        places = sorted(fitted(scale_of(low, low + width), 6 + number % 20, 4).marks)
        spaces = [after - before for before, after in pairwise(places)]
        # Four rows beside three are hardly seen, three beside two are.
        uneven += min(spaces) / max(spaces) < 0.75
    assert uneven < 30


def shown(low: float, high: float, rows: int = 8, *, log: bool = False) -> dict[int, str]:
    marks = fitted(scale_of(low, high, log=log), rows, 4).marks
    return {row: marks[row].label for row in sorted(marks)}


def test_axes_that_were_once_wrong():
    assert shown(-55.9, -25.6) == {1: "-30", 3: "-40", 5: "-50"}
    assert shown(0, 1) == {0: "1.0", 4: "0.5", 7: "0"}
    assert shown(-121, 471) == {1: "400", 3: "200", 5: "0"}
    assert shown(-55.9, -25.6, 2) == {0: "-25", 1: "-50"}
    assert len(shown(-55.9, -25.6, 1)) == 1


@pytest.mark.parametrize("value", [0.0, 3.0, -3.0, 1e-12, 1e12, -1e12, 1e300, 1e-300, 5e-324])
@pytest.mark.parametrize("rows", [2, 8, 30])
def test_a_value_that_never_changes_lies_between_marks(value, rows):
    whole = scale_of(value, value)
    scale, marks = fitted(whole, rows, 4)
    assert len(marks) >= 2
    assert 0.2 <= on_axis(scale, value) <= 0.8
    if abs(value) > 0:
        whole = scale_of(abs(value), abs(value), log=True)
        assert len(fitted(whole, rows, 4).marks) >= 2


def test_values_that_hardly_differ_have_labels_that_do():
    assert shown(12_345_600, 12_345_700) == {0: "+100", 4: "+50", 7: "12.35M"}
    assert shown(1, 1 + 1e-7) == {0: "+1e-7", 4: "+5e-8", 7: "1"}
    # Below that the line is flat.
    scale, marks = fitted(scale_of(1e12, 1e12 + 1), 8, 4)
    assert scale.high - scale.low > 1e3
    assert len({tick.label for tick in marks.values()}) == len(marks)


def test_powers_of_ten():
    assert shown(1e-12, 1e12, log=True) == {1: "10G", 4: "1", 7: "1e-10"}
    assert shown(2, 40, log=True) == {0: "30", 3: "10", 6: "3"}
    assert shown(3, 3.2, log=True) == {0: "3.2", 3: "3.1", 7: "3.0"}
    assert len(shown(5e-324, 1.7e308, log=True)) >= 2


@pytest.mark.parametrize(
    "ends",
    [
        (math.nan, math.nan),
        (-math.inf, math.inf),
        (0.0, math.inf),
        (-1.7e308, 1.7e308),
        (0, 5e-324),
    ],
)
@pytest.mark.parametrize("rows", [1, 2, 8, 60])
def test_nothing_raises_for_what_is_no_usual_range(ends, rows):
    found = fitted(Scale(*ends), rows, 4)
    assert set(found.marks) <= set(range(rows))
    assert all(isinstance(tick, Tick) and tick.label for tick in found.marks.values())
