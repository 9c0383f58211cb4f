"""Where history records lie: the newest in memory too, to answer subscribers from there."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import NamedTuple


class HistorySegment(NamedTuple):
    """A history file, the first update sequence that it may hold, and how much of it counts
    (``None``: all)."""

    path: Path
    first: int
    valid_bytes: int | None = None


class TailRecord(NamedTuple):
    """A history record as bytes; ``layout`` is -1 where it refers to none, ``tags`` are its."""

    sequence: int
    layout: int
    data: bytes
    tags: tuple[str, ...] = ()


class HistoryTail(deque[TailRecord]):
    """Oldest first, without a hole. Owned by the aggregator's main thread."""

    def __init__(self) -> None:
        super().__init__()
        self._bytes = 0

    def remember(self, record: TailRecord, max_bytes: int) -> None:
        """Add the next record and forget the oldest ones beyond ``max_bytes``."""
        self.append(record)
        self._bytes += _held_bytes(record)
        while self._bytes > max_bytes and len(self) > 1:
            self._bytes -= _held_bytes(self.popleft())


def _held_bytes(record: TailRecord) -> int:
    """Records mostly share their tags, but need not."""
    return len(record.data) + 8 * len(record.tags)
