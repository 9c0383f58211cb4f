"""Which GPUs a run may use, from ``CUDA_VISIBLE_DEVICES``. Pure."""

from __future__ import annotations

from collections.abc import Collection

BUS_ORDER = "PCI_BUS_ID"
"""``CUDA_DEVICE_ORDER`` with which CUDA numbers GPUs as the driver does."""


def visible_gpus(variable: str | None) -> tuple[str, ...] | None:
    """Indices (decimal) and UUIDs (or beginnings of them) in their order; ``None`` for all.

    As CUDA reads it: what follows an entry that names nothing does not count, so an empty
    variable and ``-1`` mean no GPU. Whether an entry exists, only the driver knows.
    """
    if variable is None:
        return None
    named: list[str] = []
    for entry in variable.split(","):
        name = entry.strip()
        if not (name.isdecimal() or name.startswith(("GPU-", "MIG-"))):
            break
        named.append(str(int(name)) if name.isdecimal() else name)
    return tuple(dict.fromkeys(named))


def is_numbered_as_by_driver(order: str | None, models: Collection[str]) -> bool:
    """Whether CUDA gives the GPUs the driver's numbers. ``order``: ``CUDA_DEVICE_ORDER``.

    By default CUDA puts the fastest GPU first and leaves the order of the others unsaid. Only
    GPUs of one model then keep the order in which the driver counts them.
    """
    return order == BUS_ORDER or len(set(models)) <= 1
