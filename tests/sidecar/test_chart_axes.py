"""Ticks and labels of axes: nice, in order, short, on every scale."""

from __future__ import annotations

import math
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from unilab_sidecar.charting.axes import (
    count_ticks,
    number_labels,
    scale_of,
    short_number,
    span_words,
    time_label,
    time_ticks,
    value_ticks,
)
from unilab_sidecar.charting.bins import Span

NAN, INF = math.nan, math.inf


@settings(max_examples=150, deadline=None)
@given(st.floats(-1.7e308, 1.7e308), st.floats(-1e300, 1.7e308), st.integers(1, 8))
def test_ticks_lie_on_the_axis_in_order_and_differ(one, other, most):
    for log in (False, True):
        low, high = min(one, other), max(one, other)
        if log:
            low, high = abs(low) + 1e-300, min(abs(low) + 1e-300 + abs(high), 1.7e308)
        scale = scale_of(low, high, log=log)
        ticks = value_ticks(scale, most)
        assert len(ticks) <= most
        values = [tick.value for tick in ticks]
        assert values == sorted(values)
        slack = (scale.high / 2 - scale.low / 2) * 1e-6
        assert all(scale.low - slack <= value <= scale.high + slack for value in values)
        assert all(tick.label for tick in ticks)


def test_ticks_are_nice():
    def labels(low: float, high: float, most: int = 5, *, log: bool = False) -> list[str]:
        return [tick.label for tick in value_ticks(scale_of(low, high, log=log), most)]

    assert labels(-121, 471) == ["0", "200", "400"]
    assert labels(0, 1) == ["0", "0.5", "1.0"]
    assert labels(0, 6e6) == ["0", "2M", "4M", "6M"]
    assert labels(0, 2.2e6) == ["0", "0.5M", "1.0M", "1.5M", "2.0M"]
    assert labels(0.00012, 0.00013) == ["0.000120", "0.000125", "0.000130"]
    assert labels(1e-7, 5e-7) == ["1e-07", "2e-07", "3e-07", "4e-07", "5e-07"]
    assert labels(1e-3, 1e3, log=True) == ["0.01", "1", "100"]
    assert labels(2, 40, log=True) == ["2", "5", "10", "20"]


def test_times_are_counted_as_clocks_do():
    def labels(low: float, high: float, most: int = 6) -> list[str]:
        return [tick.label for tick in time_ticks(Span(low, high), most)]

    assert labels(0, 3600) == ["0", "15m", "30m", "45m", "1h 00m"]
    assert labels(0, 90_000) == ["0", "6h", "12h", "18h", "1d 00h"]
    assert labels(0, 6e5) == ["0", "2d", "4d", "6d"]
    assert labels(50, 110) == ["1m 00s", "1m 15s", "1m 30s", "1m 45s"]
    assert [time_label(s) for s in (0, 45, 65, 3900, 200_000, -5, NAN)] == [
        "0", "45s", "1m 05s", "1h 05m", "2d 07h", "-5s", "-",
    ]  # fmt: skip


def test_numbers_are_short():
    chance = random.Random(4)
    for _ in range(2000):
        value = chance.uniform(-1, 1) * 10 ** chance.uniform(-320, 308)
        text = short_number(value)
        assert len(text) <= 10
        assert not text.startswith("-0.000000")
    assert [short_number(n) for n in (0, 12_345_678, 0.0456, 9999, 1e-7, INF, NAN)] == [
        "0", "12.35M", "0.0456", "9999", "1.00e-07", "inf", "NaN",
    ]  # fmt: skip
    assert number_labels([0.1, 0.2, 0.30000000000000004], 0.1) == ["0.1", "0.2", "0.3"]


def test_what_is_counted_has_no_ticks_between_two_whole_numbers():
    assert [tick.label for tick in count_ticks(Span(82.13, 86.13), 8)] == ["83", "84", "85", "86"]
    assert [tick.label for tick in count_ticks(Span(82.6, 82.9), 8)] == []
    assert [tick.label for tick in count_ticks(Span(0, 1000), 6)] == [
        "0", "200", "400", "600", "800", "1000",
    ]  # fmt: skip
    assert [tick.value for tick in count_ticks(Span(12_345_678, 12_345_680), 8)] == [
        12_345_678, 12_345_679, 12_345_680,
    ]  # fmt: skip


def test_a_stretch_is_said_as_finely_as_its_ends_are_apart():
    assert span_words(Span(43.7, 47.7), "iteration") == "44 to 47"
    assert span_words(Span(1, 12_000), "env_steps") == "1 to 12,000"
    assert span_words(Span(61, 7200), "time") == "1m 01s to 2h 00m"
    assert span_words(Span(4000.25, 4000.65), "time") == "4000.25s to 4000.65s"
