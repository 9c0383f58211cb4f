"""GPUs of this node, by NVIDIA's management library.

Loaded in the aggregator's process only, on a thread of its own: a call into a broken driver may
never return. NVML sees every GPU of the node, whatever ``CUDA_VISIBLE_DEVICES`` says, and makes
no context on any.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from unilab_metrics.node.visible_gpus import is_numbered_as_by_driver, visible_gpus
from unilab_schema.canonical.node import (
    GPU_UTIL,
    MEMORY_TOTAL,
    MEMORY_USED,
    POWER,
    TEMPERATURE,
    node_tag,
)

MAX_GPUS = 64


class NoGpuError(Exception):
    """No driver, no library, or no GPU of this run: there is nothing to sample, now or later."""


class _Gpu(NamedTuple):
    """``body``: the whole GPU of a slice, which has the sensors; else the same as ``handle``."""

    place: str
    handle: Any
    body: Any


class GpuReader:
    """Owned by the thread that samples."""

    def __init__(
        self,
        visible: str | None,
        load: Callable[[], Any] = lambda: importlib.import_module("pynvml"),
        order: str | None = None,
    ) -> None:
        """``visible``: the training's ``CUDA_VISIBLE_DEVICES``, ``None`` if it has none; ``order``:
        its ``CUDA_DEVICE_ORDER``. Where that leaves open which GPU a number means, all of the
        node are read. ``load``: for tests. Raises ``NoGpuError``."""
        named = visible_gpus(visible)
        if named == ():
            raise NoGpuError("CUDA_VISIBLE_DEVICES names none")
        self._nvml: Any = None
        try:
            self._nvml = load()
            self._nvml.nvmlInit()
            self._gpus = self._found(named, order)
        except Exception as error:  # noqa: BLE001  # The library has errors of its own kind.
            self.close()
            raise NoGpuError(str(error)) from None
        if not self._gpus:
            self.close()
            raise NoGpuError("none is there")

    def __call__(self) -> dict[str, float]:
        """What each GPU tells; a figure that it does not have, or not now, is left out."""
        values: dict[str, float] = {}
        for gpu in self._gpus:
            for figure, value in self._figures(gpu).items():
                values[node_tag(figure, gpu=gpu.place)] = value
        return values

    def close(self) -> None:
        """Lets the library go. Never raises."""
        with suppress(Exception):
            self._nvml.nvmlShutdown()

    def _figures(self, gpu: _Gpu) -> dict[str, float]:
        nvml = self._nvml
        found: dict[str, float] = {}
        # Which of these a GPU has depends on its model, its driver and on who asks.
        with suppress(Exception):
            found[GPU_UTIL] = float(nvml.nvmlDeviceGetUtilizationRates(gpu.handle).gpu)
        with suppress(Exception):
            memory = nvml.nvmlDeviceGetMemoryInfo(gpu.handle)
            found |= {MEMORY_USED: float(memory.used), MEMORY_TOTAL: float(memory.total)}
        with suppress(Exception):
            sensor = nvml.NVML_TEMPERATURE_GPU
            found[TEMPERATURE] = float(nvml.nvmlDeviceGetTemperature(gpu.body, sensor))
        with suppress(Exception):
            found[POWER] = nvml.nvmlDeviceGetPowerUsage(gpu.body) / 1e3
        return found

    def _found(self, named: tuple[str, ...] | None, order: str | None) -> list[_Gpu]:
        count = min(int(self._nvml.nvmlDeviceGetCount()), MAX_GPUS)
        if named is None or (
            any(name.isdecimal() for name in named)
            and not is_numbered_as_by_driver(order, self._models(count))
        ):
            named = tuple(map(str, range(count)))
        found: list[_Gpu] = []
        for name in named[:MAX_GPUS]:
            try:
                found.append(self._gpu(name))
            except Exception:  # noqa: BLE001
                # As CUDA does: what follows a GPU that is not there does not count.
                break
        return found

    def _models(self, count: int) -> list[str]:
        with suppress(Exception):
            nvml = self._nvml
            handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
            return [str(nvml.nvmlDeviceGetName(handle)) for handle in handles]
        return []

    def _gpu(self, name: str) -> _Gpu:
        nvml = self._nvml
        if name.startswith("MIG-"):
            handle = nvml.nvmlDeviceGetHandleByUUID(name)
            body = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
            instance = nvml.nvmlDeviceGetGpuInstanceId(handle)
            return _Gpu(f"{nvml.nvmlDeviceGetIndex(body)}:{instance}", handle, body)
        if name.isdecimal():
            handle = nvml.nvmlDeviceGetHandleByIndex(int(name))
        else:
            handle = self._by_uuid(name)
        return _Gpu(str(nvml.nvmlDeviceGetIndex(handle)), handle, handle)

    def _by_uuid(self, name: str) -> Any:
        """CUDA takes the beginning of a UUID for it, the library does not."""
        nvml = self._nvml
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = nvml.nvmlDeviceGetUUID(handle)
            if (uuid.decode() if isinstance(uuid, bytes) else uuid).startswith(name):
                return handle
        raise LookupError(name)
