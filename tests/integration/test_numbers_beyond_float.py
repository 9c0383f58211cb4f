"""Numbers that no float64 holds are infinities in every frame, and no mistake of ours."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from spooled import Make, of_kind

from unilab_metrics.publish.publisher import Publisher
from unilab_schema.codec import RecordKind

HUGE = 10**400
UNSPEAKABLE = 10**5000
"""Python refuses to write an integer of more than 4,300 digits."""


class Broken:
    def __float__(self) -> float:
        raise RuntimeError("lost its number")

    def __repr__(self) -> str:
        raise RuntimeError("lost its name")


def logged(publisher: Publisher, kind: RecordKind = RecordKind.ITERATION) -> list[list[float]]:
    return [np.frombuffer(frame.values, "<f8").tolist() for frame in of_kind(publisher, kind)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (HUGE, math.inf),
        (-UNSPEAKABLE, -math.inf),
        (Decimal(HUGE), math.inf),
        (Fraction(-HUGE, 3), -math.inf),
    ],
    ids=["int", "long int", "decimal", "fraction"],
)
def test_a_number_beyond_float64_is_an_infinity(make: Make, value: Any, expected: float) -> None:
    publisher = make()
    publisher.log({"a": value, "b": 1.0}, iteration=0)
    assert logged(publisher) == [[expected, 1.0]]
    assert publisher.dropped == {}


def test_in_a_call_of_many_tags_too(make: Make) -> None:
    publisher = make()
    tags = {f"t{number}": 1.0 for number in range(5000)}
    publisher.log({**tags, "z": HUGE}, iteration=0)
    numbers = [number for frame in logged(publisher) for number in frame]
    assert numbers == [1.0] * 5000 + [math.inf]
    assert publisher.dropped == {}


@pytest.mark.parametrize(
    "value",
    [np.array(HUGE), np.array([HUGE]), Broken(), Decimal("sNaN")],
    ids=["array", "list", "broken", "sNaN"],
)
def test_what_cannot_be_a_number_costs_only_itself(make: Make, value: Any) -> None:
    publisher = make()
    publisher.log({"a": value, "b": 1.0}, iteration=0)
    assert logged(publisher) == [[1.0]]
    assert publisher.dropped == {"bad_value": 1}


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda p: p.log({"a": 1.0}, iteration=UNSPEAKABLE), "bad_step"),
        (lambda p: p.log({"a": 1.0}, iteration=Broken()), "bad_step"),
        (lambda p: p.point("a", 1.0, UNSPEAKABLE), "bad_step"),
        (lambda p: p.point(Broken(), 1.0, 1), "bad_tag"),
        (lambda p: p.log({Broken(): 1.0}, iteration=1), "bad_tag"),
        (lambda p: p.add_phase_ns("learner", UNSPEAKABLE), "bad_call"),
        (lambda p: p.span("a", "b", "c", HUGE, 1), "bad_call"),
        (lambda p: p.span("a", "b", "c", 1, Broken()), "bad_call"),
    ],
)
def test_a_mistake_is_named_whatever_can_be_said_of_it(
    make: Make, call: Callable[[Publisher], None], reason: str
) -> None:
    publisher = make()
    call(publisher)
    assert publisher.dropped == {reason: 1}


def test_a_fact_of_an_event_may_be_as_large(make: Make) -> None:
    publisher = make()
    publisher.event("status", "x", size=HUGE)
    (event,) = of_kind(publisher, RecordKind.EVENT)
    assert event.data == {"size": math.inf}
    assert publisher.dropped == {}
