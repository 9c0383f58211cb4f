"""Anything that a training calls a number, as float64. Pure.

Accepted: Python numbers, NumPy scalars, arrays and tensors with exactly one element, of any
real dtype, and :class:`Mean`. NaN and infinities are data; an integer or a fraction beyond the
range of float64 becomes an infinity, as IEEE rounding has it. Everything else is refused with its
tag and a reason, and never costs the other values of the call.

torch is recognised through ``sys.modules`` and never imported.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from unilab_metrics.publish.tensors import (
    NotANumberError,
    is_on_host,
    refuse_tensor,
    tensor_type,
    to_host,
)
from unilab_schema.codec import MAX_STEP

FAST_TYPES: frozenset[type] = frozenset(
    {
        float,
        int,
        bool,
        np.float64,
        np.float32,
        np.float16,
        np.int64,
        np.int32,
        np.int16,
        np.int8,
        np.uint64,
        np.uint32,
        np.uint16,
        np.uint8,
        np.bool_,
    }
)
"""Types that ``struct`` packs as float64 by itself."""

_REAL_KINDS = "biuf"


@dataclass(frozen=True)
class Mean:
    """A partial as a value: ``total`` over ``weight`` samples.

    The reduction over ranks is then Σ total / Σ weight. A weight of 0 means "no samples here"
    and leaves the tag out; a negative or non-finite weight is refused.
    """

    total: Any
    weight: Any


class Refusal(NamedTuple):
    """Why the value of a tag is not logged."""

    tag: str
    reason: str


class Scalars(NamedTuple):
    """The numbers of a call. ``weights`` is ``None`` when every weight is 1."""

    values: dict[str, float]
    weights: dict[str, float] | None
    refused: list[Refusal]


def convert(values: Mapping[str, Any]) -> Scalars:
    """Every value that is a number, in the order of ``values``.

    Values on a device are brought to the host in one transfer per device; host values never
    synchronise anything. Never raises on values.
    """
    numbers_by_tag: dict[str, float] = {}
    weights: dict[str, float] = {}
    refused: list[Refusal] = []
    on_device: dict[str, Any] = {}
    tensor = tensor_type()
    for tag, value in values.items():
        try:
            if tensor is not None and isinstance(value, tensor):
                if is_on_host(value):
                    number = value.item()
                    numbers_by_tag[tag] = number if type(number) is float else to_float(number)
                else:
                    refuse_tensor(value)
                    on_device[tag] = value
                    numbers_by_tag[tag] = math.nan
            elif isinstance(value, Mean):
                weight = _weight(value.weight)
                if weight:
                    numbers_by_tag[tag] = to_float(value.total)
                    weights[tag] = weight
            else:
                numbers_by_tag[tag] = to_float(value)
        except NotANumberError as error:
            refused.append(Refusal(tag, str(error)))
        except Exception as error:  # noqa: BLE001 - a value's own code may raise anything
            refused.append(Refusal(tag, f"{type(value).__name__}: {error}"))
    if on_device:
        for tag, result in to_host(on_device).items():
            if isinstance(result, str):
                del numbers_by_tag[tag]
                refused.append(Refusal(tag, result))
            else:
                numbers_by_tag[tag] = result
    if all(weight == 1.0 for weight in weights.values()):
        return Scalars(numbers_by_tag, None, refused)
    return Scalars(numbers_by_tag, {tag: weights.get(tag, 1.0) for tag in numbers_by_tag}, refused)


def to_float(value: Any) -> float:
    """One value as float64. Raises an exception whose text is the reason."""
    kind = cast("type[object]", type(value))
    if kind in FAST_TYPES:
        return _as_ieee(value)
    tensor = tensor_type()
    if tensor is not None and isinstance(value, tensor):
        refuse_tensor(value)
        return to_float(value.item())
    if isinstance(value, np.ndarray | np.generic):
        return _from_numpy(value)
    if isinstance(value, str | bytes | bytearray | complex) or value is None:
        raise NotANumberError(f"a value of type {kind.__name__} is no number")
    if isinstance(value, numbers.Real):
        return _as_ieee(value)
    return _from_array_like(value)


def _as_ieee(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _from_numpy(value: Any) -> float:
    if value.size != 1:
        raise NotANumberError(f"shape {value.shape} has {value.size} elements, not one")
    kind = value.dtype.kind
    # ml_dtypes registers bfloat16 and the float8 types as kind V with a float conversion.
    if kind not in _REAL_KINDS and not (kind == "V" and "float" in value.dtype.name):
        raise NotANumberError(f"dtype {value.dtype} is no real number")
    return float(value.reshape(()).item() if kind != "V" else value.reshape(()).astype(float))


def _from_array_like(value: Any) -> float:
    """Arrays of other libraries, and number types that only know ``__float__``."""
    kind = cast("type[object]", type(value))
    shape = getattr(value, "shape", None)
    if shape is not None and hasattr(value, "dtype") and hasattr(value, "item"):
        if math.prod(shape) != 1:
            raise NotANumberError(f"shape {tuple(shape)} does not have one element")
        scalar = value.item()
        if type(scalar) is not kind:
            return to_float(scalar)
    if hasattr(kind, "__float__") and not hasattr(kind, "__len__"):
        return float(value)
    raise NotANumberError(f"a value of type {kind.__name__} is no number")


def _weight(value: Any) -> float:
    weight = to_float(value)
    if not (math.isfinite(weight) and weight >= 0.0):
        raise NotANumberError(f"a weight of {weight}")
    return weight


def to_step(value: Any) -> int | None:
    """An integral number of any type (3, 3.0, ``np.int64(3)``, ``torch.tensor(3)``) up to
    ``MAX_STEP``; ``None`` for everything else: fractions, NaN, strings, bool. Never raises."""
    if type(value) is int:
        return value if -MAX_STEP <= value <= MAX_STEP else None
    try:
        return _integral(value)
    except Exception:  # noqa: BLE001 - a value's own code may raise anything
        return None


def too_large_step(value: Any) -> str:
    """In words that a whole number has no place as a step; empty for everything else."""
    if not isinstance(value, numbers.Real):
        return ""
    with suppress(Exception):  # a value's own code may raise anything
        return f"beyond {MAX_STEP:,}" if MAX_STEP < abs(float(value)) < math.inf else ""
    return ""


def _integral(value: Any) -> int | None:
    step: int
    if isinstance(value, bool | np.bool_ | str | bytes) or value is None:
        return None
    if isinstance(value, numbers.Integral):
        step = int(value)
    elif isinstance(value, float | np.floating):
        number: float = float(value)  # pyright: ignore[reportUnknownArgumentType]
        if not number.is_integer():
            return None
        step = int(number)
    elif hasattr(value, "item"):
        tensor = tensor_type()
        if tensor is not None and isinstance(value, tensor):
            refuse_tensor(value)
        elif math.prod(value.shape) != 1:
            return None
        scalar = value.item()
        return None if hasattr(scalar, "item") else _integral(scalar)
    elif isinstance(value, numbers.Rational):
        if value.denominator != 1:
            return None
        step = int(value.numerator)
    else:
        return None
    return step if -MAX_STEP <= step <= MAX_STEP else None
