"""What counts as a number, and what happens to the rest of a call when something does not."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from unilab_metrics.publish import tensors
from unilab_metrics.publish.scalars import Mean, convert, to_float, to_step

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1.0),
        (1.5, 1.5),
        (True, 1.0),
        (2**64, 1.8446744073709552e19),
        (10**400, math.inf),
        (-(10**400), -math.inf),
        (Decimal("1.25"), 1.25),
        (Fraction(1, 4), 0.25),
        (np.float64(1.5), 1.5),
        (np.float32(2.5), 2.5),
        (np.float16(0.5), 0.5),
        (np.longdouble(3.0), 3.0),
        (np.int64(5), 5.0),
        (np.uint8(255), 255.0),
        (np.bool_(True), 1.0),
        (np.array(7), 7.0),
        (np.array([7.5]), 7.5),
        (np.array([[True]]), 1.0),
    ],
)
def test_python_and_numpy_numbers_are_accepted(value: Any, expected: float) -> None:
    assert to_float(value) == expected


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool"]
)
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_tensors_with_one_element_of_any_dtype_are_accepted(
    dtype: str, shape: tuple[int, ...]
) -> None:
    assert to_float(torch.ones(shape, dtype=getattr(torch, dtype))) == 1.0


def test_a_tensor_that_requires_grad_is_read_without_a_warning() -> None:
    tensor = torch.tensor([2.5], requires_grad=True)
    assert to_float(tensor) == 2.5
    assert to_float(torch.nn.Parameter(torch.tensor(3.5))) == 3.5


def test_nan_and_infinities_are_data() -> None:
    scalars = convert({"a": math.nan, "b": math.inf, "c": np.float32(-math.inf)})
    assert math.isnan(scalars.values["a"])
    assert scalars.values["b"] == math.inf
    assert scalars.values["c"] == -math.inf
    assert scalars.refused == []


@pytest.mark.parametrize(
    "value",
    [
        "ok",
        "1.5",
        b"1",
        None,
        1j,
        np.complex64(1),
        np.array([1.0, 2.0]),
        np.array([]),
        np.array("x"),
        np.datetime64("2026-01-01"),
        np.array(None),
        [1.0],
        (1.0,),
        {"a": 1.0},
        object(),
        torch.zeros(2),
        torch.zeros(0),
        torch.tensor(1j),
    ],
)
def test_what_is_no_number_is_refused_by_tag_and_costs_nothing_else(value: Any) -> None:
    scalars = convert({"before": 1.0, "bad": value, "after": 2.0})
    assert scalars.values == {"before": 1.0, "after": 2.0}
    assert [refusal.tag for refusal in scalars.refused] == ["bad"]
    assert scalars.refused[0].reason


def test_a_value_whose_conversion_raises_is_refused() -> None:
    class Broken:
        def __float__(self) -> float:
            raise RuntimeError("on fire")

    scalars = convert({"bad": Broken(), "good": 1})
    assert scalars.values == {"good": 1.0}
    assert "on fire" in scalars.refused[0].reason


def test_a_partial_carries_its_weight_and_others_weigh_one() -> None:
    scalars = convert({"a": Mean(5.0, 5), "b": 2.0})
    assert scalars.values == {"a": 5.0, "b": 2.0}
    assert scalars.weights == {"a": 5.0, "b": 1.0}


def test_partials_of_weight_one_need_no_weights() -> None:
    assert convert({"a": Mean(torch.tensor(3.0), np.int64(1))}).weights is None


def test_a_partial_without_samples_is_absent_and_a_negative_weight_is_refused() -> None:
    scalars = convert({"none": Mean(0.0, 0), "bad": Mean(1.0, -1.0), "nan": Mean(1.0, math.nan)})
    assert scalars.values == {}
    assert [refusal.tag for refusal in scalars.refused] == ["bad", "nan"]


@pytest.mark.parametrize(
    "value", [3, 3.0, np.int64(3), np.float32(3), np.array(3), Fraction(3), torch.tensor(3)]
)
def test_integral_steps_of_any_type_are_the_same_step(value: Any) -> None:
    assert to_step(value) == 3
    assert type(to_step(value)) is int


@pytest.mark.parametrize(
    "value",
    [
        3.7,
        "4",
        2**63,
        2**50 + 1,
        -(2**63) - 1,
        math.nan,
        math.inf,
        None,
        True,
        np.bool_(True),
        Fraction(7, 2),
        torch.tensor(3.7),
        torch.tensor([3, 4]),
        np.array([3, 4]),
        np.float64("nan"),
        object(),
    ],
)
def test_other_steps_are_refused_and_never_truncated(value: Any) -> None:
    assert to_step(value) is None


def test_device_tensors_are_fetched_in_one_transfer(monkeypatch: pytest.MonkeyPatch) -> None:
    transfers: list[int] = []
    original = torch.Tensor.cpu

    def counted(self: Any, *args: Any) -> Any:
        transfers.append(self.numel())
        return original(self, *args)

    monkeypatch.setattr(torch.Tensor, "cpu", counted)
    monkeypatch.setattr(torch.Tensor, "item", lambda self: pytest.fail("a transfer per scalar"))
    monkeypatch.setattr("unilab_metrics.publish.scalars.is_on_host", lambda tensor: False)
    values = {f"t{i}": torch.tensor([float(i)], requires_grad=True) for i in range(60)}
    values["half"] = torch.tensor(0.5, dtype=torch.bfloat16)
    values["big"] = torch.tensor(2**53 + 2)
    values["bad"] = torch.zeros(2)
    scalars = convert({"first": 1.0, **values, "last": 2.0})
    assert transfers == [62]
    assert list(scalars.values) == ["first", *(t for t in values if t != "bad"), "last"]
    assert scalars.values["t59"] == 59.0
    assert scalars.values["half"] == 0.5
    assert scalars.values["big"] == 2**53 + 2
    assert [refusal.tag for refusal in scalars.refused] == ["bad"]


def test_a_device_that_cannot_be_read_costs_only_its_own_values() -> None:
    meta = torch.zeros((), device="meta")
    scalars = convert({"good": 1.0, "gone": meta})
    assert scalars.values == {"good": 1.0}
    assert "could not be read" in scalars.refused[0].reason


def test_numbers_are_recognised_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(tensors.sys.modules, "torch")
    assert tensors.tensor_type() is None
    assert convert({"a": 1.0}).values == {"a": 1.0}
