"""A run's past entry by entry, as much of it as is worth reading, and the highest reward of the rest.
Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from unilab_metrics.subscribe.asking import NoAnswer
from unilab_schema.updates import BLOCK_ENTRIES, Supplement, Update
from unilab_sidecar.charting.bins import Field
from unilab_sidecar.charting.intake import of_blocks

if TYPE_CHECKING:
    from unilab_metrics.subscribe.history import HistoryRecord
    from unilab_sidecar.feeding.past_questions import PastAnswering

MOST_ENTRIES = 60_000
MOST_BYTES = 64 * 1024 * 1024
"""Of longer runs the last half of these is read: all of them would take seconds."""
_PIECE = 4000
_ENTRY_BYTES = 64


class PastPiece(NamedTuple):
    """Entries in order. ``lost``: of those up to the last one that nobody can read; ``complete``:
    all are told."""

    records: tuple[HistoryRecord, ...]
    lost: int
    complete: bool


@dataclass(frozen=True, slots=True)
class PastQuestion:
    """The entries behind the update sequence ``after``, up to ``through``."""

    after: int
    through: int

    def put(self, source: PastAnswering) -> PastPiece | NoAnswer | None:
        """Called in the feed's thread, again and again until there is an answer."""
        left = self.through - self.after
        found = source.stretch(self.after, min(left, _PIECE))
        if found is None or isinstance(found, NoAnswer):
            return found
        # Where nobody can read what lies there, it is passed over.
        last = min(found.last, self.through) if found.last > self.after else self.through
        records = tuple(one for one in found.records if one.sequence <= last)
        return PastPiece(records, last - self.after - len(records), last >= self.through)

    def following(self, piece: PastPiece) -> PastQuestion | None:
        """What is asked next, ``None`` when everything is told."""
        if piece.complete:
            return None
        return replace(self, after=self.after + len(piece.records) + piece.lost)


class PastPeak(NamedTuple):
    """The highest value up to the update sequence ``reached``, ``None`` without any; ``complete``:
    that is far enough."""

    value: float | None
    reached: int
    complete: bool


@dataclass(frozen=True, slots=True)
class PeakQuestion:
    """The highest value of ``tag`` behind the update sequence ``after``, up to ``through``: out of
    the history in brief, which takes a moment also of a week."""

    tag: str
    through: int
    after: int = 0

    def put(self, source: PastAnswering) -> PastPeak | NoAnswer | None:
        """Called in the feed's thread, again and again until there is an answer."""
        told = source.bins((self.tag,), self.after)
        if told is None or isinstance(told, NoAnswer):
            return told
        reached = min(told.last, self.through // BLOCK_ENTRIES * BLOCK_ENTRIES)
        if told.first != self.after + 1 or reached <= self.after:
            return self._of_entries(source)
        blocks = [block for block in told.blocks if block.last <= reached]
        highest = [float(table[Field.MAXIMUM].max()) for _, table in of_blocks(blocks)]
        found = [one for one in highest if one > -math.inf]
        return PastPeak(max(found, default=None), reached, reached >= self.through)

    def _of_entries(self, source: PastAnswering) -> PastPeak | NoAnswer | None:
        """What is not told in brief yet is not much."""
        left = self.through - self.after
        unread = NoAnswer("a part of the history is not told in brief")
        if left > BLOCK_ENTRIES:
            return unread
        found = source.stretch(self.after, left, (self.tag,))
        if found is None or isinstance(found, NoAnswer):
            return found
        if found.last <= self.after:
            return unread
        values = [
            float(one.values()[one.tags.index(self.tag)])
            for one in found.records
            if isinstance(one.entry, Update | Supplement)
            and self.tag in one.tags
            and one.sequence <= self.through
        ]
        highest = max((one for one in values if math.isfinite(one)), default=None)
        return PastPeak(highest, found.last, found.last >= self.through)

    def following(self, piece: PastPeak) -> PeakQuestion | None:
        """What is asked next, ``None`` when everything is told."""
        return None if piece.complete else replace(self, after=piece.reached)


def begin_of(records: Sequence[HistoryRecord], first: int) -> int:
    """Behind which update sequence the rest begins that is worth reading. ``records``: those that
    have come, from the update sequence ``first`` on."""
    before = first - 1 if first <= MOST_ENTRIES else MOST_ENTRIES // 2
    size_bytes = sum(_size_of(one) for one in records) // max(len(records), 1)
    if before * size_bytes > MOST_BYTES:
        before = MOST_BYTES // 2 // size_bytes
    return max(first - 1 - before, 0)


def _size_of(record: HistoryRecord) -> int:
    entry = record.entry
    return _ENTRY_BYTES + (len(entry.values) if isinstance(entry, Update | Supplement) else 0)
