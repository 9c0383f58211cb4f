"""The history files of a run, read where no aggregator can be asked."""

from __future__ import annotations

from pathlib import Path

from unilab_metrics.subscribe.history import HistoryReader, HistoryRecord
from unilab_metrics.subscribe.joining import is_before
from unilab_metrics.subscribe.past_files import PastFiles
from unilab_metrics.subscribe.position import Position
from unilab_schema.codec import RecordKind
from unilab_schema.updates import AttemptOpened, Update

RECENT_ENTRIES = 30_000
RECENT_BYTES = 32 * 1024 * 1024
"""Of a history that is read without a wish where to begin: more would take more than a second."""
END_ENTRIES = 1024
END_BYTES = 2 * 1024 * 1024
"""Of one whose end is enough at first, where these reach back far enough for a picture."""
_FURTHER = 4
_FIRST = 8
_LAST = 16
_BATCH_BYTES = 1024 * 1024


class Files:
    """Reads on from a subscriber's position. ``bus_dir``: ``None`` for a run that is known by
    its address only."""

    def __init__(self, bus_dir: Path | None) -> None:
        self._bus_dir = bus_dir
        self._reader: HistoryReader | None = None

    def read(self, position: Position, *, is_end_enough: bool = False) -> list[HistoryRecord]:
        """New entries in order; moves the position. ``is_end_enough``: begin near the end of the
        history, with what a picture of now needs. Raises as ``HistoryReader.poll`` does."""
        if self._bus_dir is None:
            return []
        reader = self._reader
        if reader is None:
            past = PastFiles(self._bus_dir)
            begun = self._begin(past, position, is_end_enough=is_end_enough)
            after = position.cursor or 0
            beginning = past.beginning(after + 1) if after else None
            reader = self._reader = HistoryReader(self._bus_dir, after, beginning)
            if begun:
                return begun
        damaged, lost = reader.damaged, reader.lost_entries
        entries = reader.poll(max_bytes=_BATCH_BYTES)
        position.damaged += reader.damaged - damaged
        position.lost_entries += reader.lost_entries - lost
        if entries:
            position.cursor = reader.cursor
        return entries

    @staticmethod
    def _begin(past: PastFiles, position: Position, *, is_end_enough: bool) -> list[HistoryRecord]:
        """Of a long history only its end is read; what run it is, its first entries say."""
        if position.cursor is not None:
            return []
        last = past.last()
        most = (END_ENTRIES, END_BYTES) if is_end_enough else (RECENT_ENTRIES, RECENT_BYTES)
        if last <= 2 * most[0] and past.size_bytes() <= 2 * most[1]:
            return []
        begin = _near_end(past, last) if is_end_enough else _behind(past, last, *most)
        if begin <= 0:
            return []
        position.cursor = min(begin, last - 1)
        first = past.stretch(0, _FIRST).records
        return [record for record in first if isinstance(record.entry, AttemptOpened)]

    def close(self) -> None:
        """Another read begins anew at the position; idempotent."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def _behind(past: PastFiles, last: int, entries: int, size_bytes: int) -> int:
    """Behind which update sequence so many entries lie, and not more bytes."""
    return max(last - entries, past.sequence_near_end(size_bytes) - 1, 0)


def _near_end(past: PastFiles, last: int) -> int:
    """Behind which update sequence to begin, so that nothing is missing of what is averaged."""
    newest = _updates(past.stretch(max(last - _LAST, 0), _LAST).records)[-1:]
    entries, size_bytes = END_ENTRIES, END_BYTES
    while entries < RECENT_ENTRIES:
        begin = _behind(past, last, entries, size_bytes)
        first = _updates(past.stretch(begin, _LAST).records)[:1]
        if not begin or (newest and first and is_before(first[0], newest[0])):
            return begin
        if not newest and past.stretch(begin, entries, (), (RecordKind.UPDATE,)).records:
            return begin
        entries, size_bytes = entries * _FURTHER, size_bytes * _FURTHER
    return _behind(past, last, RECENT_ENTRIES, RECENT_BYTES)


def _updates(records: tuple[HistoryRecord, ...]) -> list[Update]:
    return [one.entry for one in records if isinstance(one.entry, Update)]
