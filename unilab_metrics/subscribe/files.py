"""The history files of a run, read where no aggregator can be asked."""

from __future__ import annotations

from pathlib import Path

from unilab_metrics.subscribe.history import HistoryReader, HistoryRecord
from unilab_metrics.subscribe.past_files import PastFiles
from unilab_metrics.subscribe.position import Position
from unilab_schema.updates import AttemptOpened

RECENT_ENTRIES = 30_000
"""Of a history that is read without a wish where to begin: more would take more than a second."""
_FIRST = 8


class Files:
    """Reads on from a subscriber's position. ``bus_dir``: ``None`` for a run that is known by
    its address only."""

    def __init__(self, bus_dir: Path | None) -> None:
        self._bus_dir = bus_dir
        self._reader: HistoryReader | None = None

    def read(self, position: Position) -> list[HistoryRecord]:
        """New entries in order; moves the position. Raises as ``HistoryReader.poll`` does."""
        if self._bus_dir is None:
            return []
        reader = self._reader
        if reader is None:
            begun = self._begin(self._bus_dir, position)
            reader = self._reader = HistoryReader(self._bus_dir, position.cursor or 0)
            if begun:
                return begun
        damaged, lost = reader.damaged, reader.lost_entries
        entries = reader.poll()
        position.damaged += reader.damaged - damaged
        position.lost_entries += reader.lost_entries - lost
        if entries:
            position.cursor = reader.cursor
        return entries

    @staticmethod
    def _begin(bus_dir: Path, position: Position) -> list[HistoryRecord]:
        """Of a long history only its end is read; what run it is, its first entries say."""
        if position.cursor is not None:
            return []
        past = PastFiles(bus_dir)
        last = past.last()
        if last <= 2 * RECENT_ENTRIES:
            return []
        position.cursor = last - RECENT_ENTRIES
        first = past.stretch(0, _FIRST).records
        return [record for record in first if isinstance(record.entry, AttemptOpened)]

    def close(self) -> None:
        """Another read begins anew at the position; idempotent."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
