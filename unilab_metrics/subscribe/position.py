"""How far a subscriber is in the run's history. Pure: time and messages are handed in."""

from __future__ import annotations

from typing import NamedTuple

from unilab_metrics.storage.records import scan
from unilab_metrics.subscribe.history import HISTORY_KINDS, HistoryRecord, decode_entry
from unilab_metrics.subscribe.history_record import put_layout
from unilab_metrics.subscribe.known_layouts import KnownLayouts
from unilab_schema.codec import FrameDecodeError
from unilab_schema.control import Head
from unilab_schema.requests import Updates
from unilab_schema.updates import Update


class Decoded(NamedTuple):
    """``damaged``: records and stretches that could not be read."""

    records: list[HistoryRecord]
    damaged: int


def records_in(reply: Updates, layouts: dict[int, tuple[str, ...]]) -> Decoded:
    """What a reply holds; ``layouts`` are those known before, and those of the reply after it."""
    for layout in reply.layouts:
        put_layout(layouts, layout)
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

    def __init__(self, after: int | None, recent: int | None) -> None:
        """``recent``: how many entries before the newest one come first; ``None``: the cursor is
        set by who finds out."""
        self.cursor = after
        self.head: Head | None = None
        self.lost_entries = 0
        self.damaged = 0
        self.passed_over = 0
        """Update sequences that nobody wanted to wait for; see ``passing_over``."""
        self.pass_until = 0
        self._recent = recent
        self.known = KnownLayouts()

    @property
    def is_behind(self) -> bool:
        """Whether the newest head knows of entries that were not fetched yet."""
        return self.head is not None and self.cursor is not None and self.head.update > self.cursor

    @property
    def is_passing(self) -> bool:
        """Whether only a part is wanted of the entries that come next."""
        return self.cursor is not None and self.cursor < self.pass_until

    @property
    def is_joining(self) -> bool:
        """Whether it has to be found out where to begin."""
        return self.head is not None and self.cursor is None

    def age_s(self, newest: Update, head_age_s: float, unix_s: float) -> float:
        """Seconds since ``newest`` was sealed, ``head_age_s`` after the newest announcement was
        made."""
        if self.head is None:
            return max(0.0, unix_s - newest.unix_ns / 1e9)
        return max(0.0, (self.head.mono_ns - newest.sealed_mono_ns) / 1e9 + head_age_s)

    def heed(self, head: Head) -> bool:
        """Take note of an announcement; False for one of a replaced aggregator."""
        known = self.head
        if known is not None and known.epoch.journal != head.epoch.journal:
            self.cursor = known = None
            self.pass_until = 0
            self.known.forget()
        if known is not None and head.epoch.counter < known.epoch.counter:
            return False
        if self.cursor is None:
            if self._recent is not None or not head.update:
                self.cursor = max(0, head.update - (self._recent or 0))
        elif known is not None and known.epoch != head.epoch and head.update < self.cursor:
            # What was not durable went with the node; its sequences are given out anew.
            self.cursor = head.update
            self.pass_until = 0
        self.head = head
        return True

    def accept(self, reply: Updates, *, is_part: bool = False) -> list[HistoryRecord]:
        """The entries of a reply that were not given out before, in order. ``is_part``: of those up
        to ``pass_until`` only some were asked for; none behind that are taken."""
        entries: list[HistoryRecord] = []
        begin = cursor = self.cursor or 0
        through = min(reply.last, self.pass_until) if is_part else reply.last
        self.known.note(reply.layouts)
        found = records_in(reply, self.known.tags)
        self.damaged += found.damaged
        for entry in found.records:
            if entry.sequence <= cursor or (is_part and entry.sequence > through):
                continue
            cursor = entry.sequence
            entries.append(entry)
        cursor = max(cursor, through)
        missing = cursor - begin - len(entries)
        if is_part:
            self.passed_over += missing
        else:
            self.lost_entries += missing
        self.cursor = cursor
        return entries
