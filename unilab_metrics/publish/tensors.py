"""torch tensors without importing torch: what they are, and how they reach the host.

A host tensor is read where it lies. Device tensors of one call are stacked on their device
and fetched together, because each fetch waits for everything that the device still does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from operator import attrgetter
from typing import Any

_EXACT_IN_FLOAT32 = frozenset({"torch.float32", "torch.float16", "torch.bfloat16"})
_WITHOUT_FLOAT64 = frozenset({"mps", "xla"})


class NotANumberError(Exception):
    """The reason why a value is refused."""


def tensor_type() -> type | None:
    """``torch.Tensor`` if the process has imported torch."""
    return getattr(sys.modules.get("torch"), "Tensor", None)


is_on_host: Callable[[Any], bool] = attrgetter("is_cpu")
"""Whether reading a tensor needs no device."""


def refuse_tensor(tensor: Any) -> None:
    """Raises :class:`NotANumberError` if it is none. Does not look at its value."""
    if tensor.numel() != 1:
        count = tensor.numel()
        raise NotANumberError(f"shape {tuple(tensor.shape)} has {count} elements, not one")
    if tensor.is_complex():
        raise NotANumberError(f"dtype {tensor.dtype} is no real number")


def to_host(tensors: dict[str, Any]) -> dict[str, float | str]:
    """One-element device tensors as numbers, or as the reason why one could not be read.

    One stack and one transfer per device and target type: float32 if that is exact for every
    value, else float64, else (devices without float64) floats and integers apart.
    """
    result: dict[str, float | str] = {}
    for group in _groups(tensors):
        try:
            numbers = _fetch(group)
        except Exception as error:  # noqa: BLE001 - a broken device must not end the training
            result.update(dict.fromkeys(group, f"could not be read: {error}"))
        else:
            result.update(zip(group, map(float, numbers), strict=True))
    return result


def _groups(tensors: dict[str, Any]) -> list[dict[str, Any]]:
    by_device: dict[Any, dict[str, Any]] = {}
    for tag, tensor in tensors.items():
        by_device.setdefault(tensor.device, {})[tag] = tensor
    groups: list[dict[str, Any]] = []
    for device, group in by_device.items():
        if device.type not in _WITHOUT_FLOAT64:
            groups.append(group)
            continue
        floats = {tag: t for tag, t in group.items() if t.is_floating_point()}
        others = {tag: t for tag, t in group.items() if tag not in floats}
        groups += [part for part in (floats, others) if part]
    return groups


def _fetch(group: dict[str, Any]) -> list[Any]:
    torch = sys.modules["torch"]
    members = list(group.values())
    target = _common_type(torch, members)
    with torch.no_grad():
        flat = [member.detach().reshape(()).to(target) for member in members]
        return torch.stack(flat).cpu().tolist()


def _common_type(torch: Any, members: list[Any]) -> Any:
    if all(str(member.dtype) in _EXACT_IN_FLOAT32 for member in members):
        return torch.float32
    if members[0].device.type not in _WITHOUT_FLOAT64:
        return torch.float64
    return torch.float32 if members[0].is_floating_point() else torch.int64
