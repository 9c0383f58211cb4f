"""Which of the run's own alerts are open, by the events of its history. Pure."""

from __future__ import annotations

from unilab_schema.alerts import ALERT, ALERT_OVER, AlertStatus, opened_by
from unilab_schema.updates import AttemptOpened, EventUpdate, HistoryEntry

MOST = 256


class SeenAlerts:
    """Of the entries that have come, in order. One owner, no locks; bounded."""

    def __init__(self) -> None:
        self._open: dict[int, AlertStatus] = {}

    def add(self, sequence: int, entry: HistoryEntry) -> None:
        """Takes the next entry; an attempt begins without any alert."""
        if isinstance(entry, AttemptOpened):
            self._open.clear()
            return
        if not isinstance(entry, EventUpdate) or entry.source is not None:
            return
        frame = entry.frame
        if frame.kind == ALERT:
            if len(self._open) >= MOST:
                del self._open[next(iter(self._open))]
            self._open[sequence] = opened_by(sequence, frame)
        elif frame.kind == ALERT_OVER and isinstance(alert := frame.data.get("alert"), int):
            self._open.pop(alert, None)

    @property
    def open(self) -> tuple[AlertStatus, ...]:
        """Those that have not ended, oldest first."""
        return tuple(self._open.values())
