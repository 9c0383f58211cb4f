"""A training's own mistakes at the call: named and counted in open mode, raised in strict mode."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from spooled import of_kind, spooled_publisher

from unilab_metrics.publish.iterations import IterationClock
from unilab_metrics.publish.publisher import Publisher
from unilab_schema.codec import RecordKind
from unilab_schema.frames import IterationFrame

A = {"Loss/value": 1.0}
B = {"Loss/entropy": 1.0}


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Publisher]]:
    made: list[Publisher] = []

    def make(*, strict: bool) -> Publisher:
        made.append(spooled_publisher(tmp_path, strict=strict))
        return made[-1]

    yield make
    for publisher in made:
        publisher.close(0)


MISTAKES: list[tuple[Callable[[Publisher], None], str, str]] = [
    (lambda p: p.log(A, iteration=1.5), "bad_step", "iteration: 1.5 is no number of steps"),
    (lambda p: p.log(A, iteration="1"), "bad_step", "iteration: '1' is no number of steps"),
    (lambda p: p.log(A, iteration=-1), "bad_step", "iteration: -1 is no number of steps"),
    (lambda p: p.log(A, env_steps="x"), "bad_step", "env_steps: 'x' is no number of steps"),
    (
        lambda p: p.log(A, env_steps=2 * 10**15),
        "bad_step",
        "env_steps: 2000000000000000 is beyond 1,125,899,906,842,624",
    ),
    (
        lambda p: p.point("a", 1.0, 10**16),
        "bad_step",
        "a: 10000000000000000 is beyond 1,125,899,906,842,624",
    ),
    (
        lambda p: p.log([1, 2], iteration=1),  # type: ignore[arg-type]
        "bad_call",
        "values: a list is no mapping of names to numbers",
    ),
    (
        lambda p: p.log(["Loss/value"], iteration=2),  # type: ignore[arg-type]
        "bad_call",
        "values: a list is no mapping of names to numbers",
    ),
    (
        lambda p: p.log(3.0, iteration=1),  # type: ignore[arg-type]
        "bad_call",
        "values: a float is no mapping of names to numbers",
    ),
    (
        lambda p: p.gauges(inference=[1]),  # type: ignore[arg-type]
        "bad_call",
        "values: a list is no mapping of names to numbers",
    ),
    (lambda p: p.point("a", 1.0, "soon"), "bad_step", "a: 'soon' is no integral step"),
    (
        lambda p: p.point("a", 1.0, 1, unix_ns="now"),  # type: ignore[arg-type]
        "bad_call",
        "unix_ns: 'now' is no number of nanoseconds",
    ),
    (
        lambda p: p.span("s", "c", "t", "soon", 1),  # type: ignore[arg-type]
        "bad_call",
        "span: 'soon' is no number of nanoseconds",
    ),
    (
        lambda p: p.define_metric("a", unit=5),  # type: ignore[arg-type]
        "bad_call",
        "a: definition: Expected `str`, got `int` - at `$[0][2]`",
    ),
    (
        lambda p: p.start_training(env_steps="many"),
        "bad_step",
        "env_steps: 'many' is no number of steps",
    ),
]


@pytest.mark.parametrize(("mistake", "reason", "text"), MISTAKES, ids=lambda v: str(v)[:30])
def test_a_mistake_is_named_in_open_mode_and_raised_in_strict_mode(
    mistake: Callable[[Publisher], None],
    reason: str,
    text: str,
    make: Callable[..., Publisher],
) -> None:
    strict = make(strict=True)
    strict.log(A, iteration=1)
    with pytest.raises(ValueError, match=text.replace("$[0][2]", ".*")):
        mistake(strict)
    assert strict.dropped == {}
    plain = make(strict=False)
    plain.log(A, iteration=1)
    mistake(plain)
    assert plain.dropped == {reason: 1}
    warned = [e.text for e in of_kind(plain, RecordKind.EVENT) if e.kind == "warning"]
    assert warned == [text]


def iterations_of(publisher: Publisher) -> list[int]:
    frames: list[IterationFrame] = of_kind(publisher, RecordKind.ITERATION)
    return [frame.iteration for frame in frames]


@pytest.mark.parametrize(
    ("second", "text"),
    [
        ({"values": B, "iteration": 3}, "iteration 3 comes after 4"),
        ({"values": B, "iteration": 4}, "iteration 4 is complete; more=True keeps one open"),
        ({"values": A}, "'Loss/value' was logged twice for iteration 4"),
        ({"values": A, "iteration": 5, "env_steps": 9}, "env_steps 9 comes after 10"),
    ],
)
def test_what_is_over_is_not_logged_again_in_strict_mode(
    second: dict[str, Any], text: str, make: Callable[..., Publisher]
) -> None:
    strict = make(strict=True)
    strict.log(A, iteration=4, env_steps=10)
    with pytest.raises(ValueError, match=text):
        strict.log(**second)
    strict.log(A, iteration=5, env_steps=10)
    assert iterations_of(strict) == [4, 5]
    plain = make(strict=False)
    plain.log(A, iteration=4, env_steps=10)
    plain.log(**second)
    assert plain.dropped == {}


def test_more_keeps_the_newest_iteration_open_in_strict_mode(
    make: Callable[..., Publisher],
) -> None:
    strict = make(strict=True)
    strict.log(A, iteration=4, more=True)
    strict.log(B, iteration=4)
    strict.log({"Loss/surrogate": 1.0})
    with pytest.raises(ValueError, match="iteration 4 is complete"):
        strict.log({"Loss/learning_rate": 1.0}, iteration=4)
    assert iterations_of(strict) == [4, 4, 4]


def told_at_the_end(publisher: Publisher) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        publisher.close(0)
    texts = [str(warning.message) for warning in caught]
    return [text for text in texts if text.startswith("nothing that the training gave")]


@pytest.mark.parametrize(
    ("log", "text"),
    [
        (
            lambda p, k: p.log(A, iteration=k + 0.5),
            "dropped 8 steps not whole or beyond 2^50 (iteration: 0.5 is no number of steps)",
        ),
        (
            lambda p, k: p.log({"a": "x", "b": None}, iteration=k),
            (
                "dropped 16 values that are no number (a: a value of type str is no number; b: a value of type "
                "NoneType is no number)"
            ),
        ),
        (
            lambda p, k: p.log({"": 1.0, 5: 2.0}, iteration=k),
            "dropped 16 unusable tag names ('': an empty tag; tag 5: must be a string)",
        ),
        (
            lambda p, _: p.log([1, 2]),
            "dropped 8 calls with wrong arguments (values: a list is no mapping of names to numbers)",
        ),
        (
            lambda p, k: p.point(f"t{k}", k, "x"),
            (
                "dropped 8 steps not whole or beyond 2^50 (t0: 'x' is no integral step; t1: 'x' is no integral step; "
                "t2: 'x' is no integral step; and 5 things more)"
            ),
        ),
    ],
)
def test_a_training_of_which_nothing_was_logged_is_told_so_at_its_end(
    log: Callable[[Publisher, int], None], text: str, make: Callable[..., Publisher]
) -> None:
    publisher = make(strict=False)
    for k in range(8):
        log(publisher, k)
    assert told_at_the_end(publisher) == [f"nothing that the training gave was logged: {text}"]
    of_some = make(strict=False)
    of_some.log(A, iteration=0)
    log(of_some, 1)
    assert told_at_the_end(of_some) == []


def test_a_failure_of_our_own_is_told_to_the_run(
    make: Callable[..., Publisher], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("out of order")

    publisher = make(strict=False)
    monkeypatch.setattr(IterationClock, "advance", fail)
    publisher.log(A, iteration=1)
    publisher.log(A, iteration=2)
    assert publisher.dropped == {"internal_error": 2}
    (event,) = [e for e in of_kind(publisher, RecordKind.EVENT) if e.kind == "warning"]
    assert (event.text, event.data) == (
        "RuntimeError: out of order",
        {"reason": "internal_error"},
    )
