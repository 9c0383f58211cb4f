"""Noticing that somebody fills our memory below our own code.

libzmq bounds a part of a message and how many messages wait, and neither how many parts a
message has nor what an unfinished one may take. Such a message is nowhere to be seen until it is
whole; only the process grows. Its memory is given back with its connection.
"""

from __future__ import annotations

import os
from collections.abc import Callable

STEP_BYTES = 256 * 1024 * 1024
_LOOK_INTERVAL_S = 0.2
_SETTLE_S = 1.0


def resident_bytes() -> int:
    """Memory of this process; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


class MemoryBound:
    """Says when the process has grown by another step. Owned by one thread."""

    def __init__(
        self, step_bytes: int = STEP_BYTES, *, measure: Callable[[], int] = resident_bytes
    ) -> None:
        self._step_bytes = step_bytes
        self._measure = measure
        self._base_bytes: int | None = None
        self._look_at_s = 0.0

    def is_exceeded(self, now_s: float) -> bool:
        """Whether to cut off who may be the cause. What is left a second later is what we
        ourselves need, and the next step begins there."""
        if now_s < self._look_at_s:
            return False
        self._look_at_s = now_s + _LOOK_INTERVAL_S
        found = self._measure()
        if self._base_bytes is None or found < self._base_bytes:
            self._base_bytes = found
        if found - self._base_bytes <= self._step_bytes:
            return False
        self._base_bytes = None
        self._look_at_s = now_s + _SETTLE_S
        return True
