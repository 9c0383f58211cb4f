"""No number takes more room than its kind ever needs, whatever a training logs."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unilab_sidecar.drawing import formatting

MOST_CELLS: dict[str, tuple[Callable[[float], str], int]] = {
    "value": (formatting.value, 10),
    "whole": (formatting.whole, 10),
    "rate": (formatting.rate, 10),
    "milliseconds": (formatting.milliseconds, 14),
    "short_time": (formatting.short_time, 17),
    "percent": (formatting.percent, 12),
    "duration": (formatting.duration, 17),
    "age": (formatting.age, 10),
    "long_ago": (formatting.long_ago, 13),
}


@pytest.mark.parametrize("kind", MOST_CELLS)
@given(number=st.floats())
def test_every_float_has_a_text_that_fits(kind: str, number: float) -> None:
    write, most = MOST_CELLS[kind]
    assert 0 < len(write(number)) <= most


@pytest.mark.parametrize("kind", ["value", "whole", "rate", "milliseconds", "percent"])
@given(number=st.floats(1.0, 1e308))
def test_the_text_is_the_number_as_far_as_it_is_shown(kind: str, number: float) -> None:
    write, _ = MOST_CELLS[kind]
    for signed in (number, -number):
        digits, *unit = write(signed).replace(",", "").split()
        scale = {"M": 1e6, "G": 1e9, "T": 1e12}.get(unit[0] if unit else "", 1.0)
        assert float(digits) * scale == pytest.approx(signed, rel=0.051, abs=0.5)


def test_times_beyond_any_training_are_in_powers_of_ten() -> None:
    assert formatting.duration(86400e6) == "1.0e+06 d"
    assert formatting.duration(86400e6 - 1) == "999999 d 23:59:59"
    assert formatting.age(1e308) == formatting.long_ago(1e308) == "1.2e+303 d"
    assert formatting.milliseconds(math.nextafter(1e9, 0)) == "1,000,000,000"
    assert formatting.milliseconds(1e9) == "1.00e+09"
    assert formatting.whole(1e308) == "1.0e+308"
