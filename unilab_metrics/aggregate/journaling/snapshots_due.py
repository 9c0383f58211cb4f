"""When the next snapshot is due, and which older segments of the wal it makes superfluous.

A restart folds what lies behind the newest snapshot again. How long that takes depends on the
number of frames and iterations, hardly on their bytes, so it is measured where it is folded the
first time.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from unilab_metrics.aggregate.folding.entries import EntryKind
from unilab_metrics.aggregate.folding.state import AggregatorState
from unilab_metrics.storage.records import MAX_PAYLOAD_BYTES, encode_record

FOLDED_S = 1.0
"""Processor time of the folding behind a snapshot from which on the next one is due."""
SNAPSHOT_SHARE = 0.05
"""Of the time of the folding, at most, goes into snapshots: a large state has fewer of them."""
KEPT_WAL_SEGMENTS = 1
"""Older than the snapshot that replaces them: one that is damaged later on the disk is made
again from the one before it."""
MAX_KEPT_WAL_SEGMENTS = 8
"""Short ones: what damage of the history is made good from, and what ``verify`` folds again. A
restart reads them, though it does not fold them."""


class Snapshots:
    """Of one state. Owned by the aggregator's main thread."""

    def __init__(self, state: AggregatorState) -> None:
        self._state = state
        self._folded_ns = 0
        self.took_ns = 0
        """Processor time of the newest one."""
        self._fits = True

    def folded(self, cpu_ns: int) -> None:
        """An entry took so much processor time to fold."""
        self._folded_ns += cpu_ns

    @property
    def is_due(self) -> bool:
        """Whether a restart would have to fold for long. Not without a snapshot that fits."""
        longest = max(FOLDED_S * 1e9, self.took_ns / SNAPSHOT_SHARE)
        return self._fits and self._folded_ns > longest

    def make(self) -> bytes:
        """The state as a record; empty if it is too large for one: then the older segments
        stay and are folded again; correct, only slower."""
        began = time.thread_time_ns()
        snapshot = self._state.snapshot()
        self._fits = len(snapshot) <= MAX_PAYLOAD_BYTES
        record = encode_record(EntryKind.SNAPSHOT, 0, snapshot) if self._fits else b""
        self.took_ns, self._folded_ns = time.thread_time_ns() - began, 0
        return record


def superfluous(older: list[Path], kept_bytes: int) -> list[Path]:
    """Which of the segments before a snapshot may go, oldest first: the newest ones stay, as far as
    ``kept_bytes`` reach."""
    total = 0
    for kept, path in enumerate(reversed(older)):
        with suppress(OSError):  # one that is gone takes no room
            total += path.stat().st_size
        is_beyond = total > kept_bytes or kept >= MAX_KEPT_WAL_SEGMENTS
        if is_beyond and kept >= KEPT_WAL_SEGMENTS:
            return older[: len(older) - kept]
    return []
