"""Processors and memory of this node, by psutil; of the container, where one limits them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from unilab_metrics.node.container import memory_limit
from unilab_metrics.node.cpu_quota import CpuQuota, cpu_quota
from unilab_schema.canonical.node import CPU, CPU_QUOTA, MEMORY_TOTAL, MEMORY_USED, node_tag


class ProcessorReader:
    """Owned by the thread that samples. Its first reading covers no time and has no CPU."""

    def __init__(
        self,
        quota: Callable[[int], CpuQuota | None] = cpu_quota,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """``quota``, ``now_ns``: for tests. Raises what the import of psutil raises."""
        # A training process never loads it.
        import psutil

        self._psutil = psutil
        self._quota = quota
        self._now_ns = now_ns
        self._processors = os.cpu_count() or 1
        psutil.cpu_percent()
        self._before = quota(self._processors)
        self._read_ns = now_ns()

    def __call__(self) -> dict[str, float]:
        """CPU since the last call in percent of all processors, or of the container's quota;
        memory in bytes."""
        memory = self._psutil.virtual_memory()
        used, total = memory.total - memory.available, memory.total
        if (limit := memory_limit(total)) is not None:
            used, total = limit
        return self._cpu() | {
            node_tag(MEMORY_USED): float(used),
            node_tag(MEMORY_TOTAL): float(total),
        }

    def close(self) -> None:
        """Nothing is held."""

    def _cpu(self) -> dict[str, float]:
        of_all = self._psutil.cpu_percent()
        before, self._before = self._before, self._quota(self._processors)
        since_ns, self._read_ns = self._read_ns, self._now_ns()
        quota, elapsed_ns = self._before, self._read_ns - since_ns
        if quota is None:
            return {node_tag(CPU): of_all}
        if before is None or before.group != quota.group or elapsed_ns <= 0:
            return {}
        share = (quota.used_ns - before.used_ns) / (elapsed_ns * quota.processors)
        return {node_tag(CPU): max(100.0 * share, 0.0), node_tag(CPU_QUOTA): quota.processors}
