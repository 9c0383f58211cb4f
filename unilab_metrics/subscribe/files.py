"""The history files of a run, read where no aggregator can be asked."""

from __future__ import annotations

from pathlib import Path

from unilab_metrics.subscribe.history import HistoryReader, HistoryRecord
from unilab_metrics.subscribe.position import Position


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
            reader = self._reader = HistoryReader(self._bus_dir, position.cursor or 0)
        damaged, lost = reader.damaged, reader.lost_entries
        entries = reader.poll()
        position.damaged += reader.damaged - damaged
        position.lost_entries += reader.lost_entries - lost
        if entries:
            position.cursor = reader.cursor
        return entries

    def close(self) -> None:
        """Another read begins anew at the position; idempotent."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
