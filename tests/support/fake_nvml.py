"""A management library with GPUs as a test wants them; nothing of it needs a driver."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple


class NotSupportedError(Exception):
    pass


class Utilization(NamedTuple):
    gpu: int


class Memory(NamedTuple):
    used: int
    total: int


class FakeNvml:
    """Two GPUs with all their figures, and a slice of the second."""

    NVML_TEMPERATURE_GPU = 0
    UUIDS = ("GPU-aaaa-0", "GPU-bbbb-1")
    SLICE = "MIG-cccc"

    def __init__(self, count: int = 2) -> None:
        self.count = count
        self.missing: set[str] = set()
        self.models = ["NVIDIA H200"] * count
        self.hangs = threading.Event()
        self.let_go = threading.Event()
        self.opened = self.closed = 0

    def _answer(self, figure: str) -> None:
        if self.hangs.is_set():
            self.let_go.wait()
        if figure in self.missing:
            raise NotSupportedError(figure)

    def nvmlInit(self) -> None:  # noqa: N802
        self._answer("init")
        self.opened += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.closed += 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:  # noqa: N802
        if index >= self.count:
            raise NotSupportedError(index)
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Any:  # noqa: N802
        if uuid == self.SLICE:
            return uuid
        return self.UUIDS.index(uuid)

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: Any) -> Any:  # noqa: N802
        return 1 if handle == self.SLICE else None

    def nvmlDeviceGetGpuInstanceId(self, _handle: Any) -> int:  # noqa: N802
        return 7

    def nvmlDeviceGetIndex(self, handle: Any) -> int:  # noqa: N802
        return handle

    def nvmlDeviceGetName(self, handle: Any) -> str:  # noqa: N802
        self._answer("name")
        return self.models[handle]

    def nvmlDeviceGetUUID(self, handle: Any) -> str:  # noqa: N802
        return self.UUIDS[handle]

    def nvmlDeviceGetUtilizationRates(self, handle: Any) -> Utilization:  # noqa: N802
        self._answer("utilization")
        if handle == self.SLICE:
            raise NotSupportedError("a slice has none")
        return Utilization(87 - handle)

    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Memory:  # noqa: N802
        self._answer("memory")
        return Memory(5 << 30, 10 << 30) if handle == self.SLICE else Memory(21 << 30, 80 << 30)

    def nvmlDeviceGetTemperature(self, _handle: Any, _sensor: int) -> int:  # noqa: N802
        self._answer("temperature")
        return 64

    def nvmlDeviceGetPowerUsage(self, _handle: Any) -> int:  # noqa: N802
        self._answer("power")
        return 231_000
