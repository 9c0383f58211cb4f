"""Small files that a viewer reads beside the bus: a run's summary, and what somebody looked at last."""

from __future__ import annotations

from pathlib import Path

from unilab_metrics.errors import StorageError
from unilab_metrics.storage.bounded_reading import read_regular


def read_small(path: Path, max_bytes: int) -> bytes | None:
    """The bytes of a regular file; ``None`` if there is none, it is larger than ``max_bytes``, or
    cannot be read. Never waits for a pipe, never raises."""
    try:
        return read_regular(path, max_bytes)
    except (OSError, StorageError, ValueError):
        return None
