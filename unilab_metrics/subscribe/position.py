"""How far a subscriber is in the run's history. Pure: time and messages are handed in."""

from __future__ import annotations

from typing import NamedTuple

from unilab_metrics.storage.records import scan
from unilab_metrics.subscribe.history import HISTORY_KINDS, HistoryRecord, decode_entry
from unilab_schema.codec import FrameDecodeError
from unilab_schema.control import Head, Updates
from unilab_schema.updates import Update


class Decoded(NamedTuple):
    """``damaged``: records and stretches that could not be read."""

    records: list[HistoryRecord]
    damaged: int


def records_in(reply: Updates, layouts: dict[int, tuple[str, ...]]) -> Decoded:
    """What a reply holds; ``layouts`` are those known before, and those of the reply after it."""
    for layout in reply.layouts:
        layouts[layout.layout] = layout.tags
    result = scan(reply.records, kinds=HISTORY_KINDS)
    damaged = len(result.damaged) + bool(result.tail_reason)
    records: list[HistoryRecord] = []
    for record in result.records:
        try:
            entry = decode_entry(record, layouts)
        except FrameDecodeError:
            damaged += 1
            continue
        if entry is not None:
            records.append(entry)
    return Decoded(records, damaged)


class Position:
    """Turns heads and fetched records into entries without gaps and without repetition.

    ``cursor``: update sequence up to which entries were given out; ``None`` before joining.
    """

    def __init__(self, after: int | None, recent: int) -> None:
        self.cursor = after
        self.head: Head | None = None
        self.lost_entries = 0
        self.damaged = 0
        self._recent = recent
        self._layouts: dict[int, tuple[str, ...]] = {}

    @property
    def is_behind(self) -> bool:
        """Whether the newest head knows of entries that were not fetched yet."""
        return self.head is not None and self.head.update > (self.cursor or 0)

    def age_s(self, newest: Update, head_age_s: float, unix_s: float) -> float:
        """Seconds since ``newest`` was sealed, ``head_age_s`` after the newest announcement."""
        if self.head is None:
            return max(0.0, unix_s - newest.unix_ns / 1e9)
        return max(0.0, (self.head.mono_ns - newest.sealed_mono_ns) / 1e9 + head_age_s)

    def heed(self, head: Head) -> bool:
        """Take note of an announcement; False for one of a replaced aggregator."""
        known = self.head
        if known is not None and known.epoch.journal != head.epoch.journal:
            self.cursor = known = None
            self._layouts.clear()
        if known is not None and head.epoch.counter < known.epoch.counter:
            return False
        if self.cursor is None:
            self.cursor = max(0, head.update - self._recent)
        elif known is not None and known.epoch != head.epoch and head.update < self.cursor:
            # What was not durable went with the node; its sequences are given out anew.
            self.cursor = head.update
        self.head = head
        return True

    def accept(self, reply: Updates) -> list[HistoryRecord]:
        """The entries of a reply that were not given out before, in order."""
        entries: list[HistoryRecord] = []
        cursor = self.cursor or 0
        found = records_in(reply, self._layouts)
        self.damaged += found.damaged
        for entry in found.records:
            if entry.sequence <= cursor:
                continue
            self.lost_entries += entry.sequence - cursor - 1
            cursor = entry.sequence
            entries.append(entry)
        if reply.last > cursor:
            self.lost_entries += reply.last - cursor
            cursor = reply.last
        self.cursor = cursor
        return entries
