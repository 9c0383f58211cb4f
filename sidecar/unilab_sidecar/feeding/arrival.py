"""Whether a viewer that is new to a run has come to where the run was when it joined. Pure: times
are handed in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unilab_schema.control import Head

if TYPE_CHECKING:
    from unilab_metrics.subscribe.history import HistoryRecord

PATIENCE_S = 10.0
"""Over a slow line what there is is shown after this, with its age."""


class Arrival:
    """Owned by the feed's thread. Once it has arrived a viewer stays so."""

    def __init__(self) -> None:
        self._target: tuple[int, float] | None = None
        self._reached = 0
        self._has_arrived = False

    def is_behind(
        self,
        records: list[HistoryRecord],
        cursor: int | None,
        head: Head | None,
        now_s: float,
        *,
        reads_files: bool,
    ) -> bool:
        """To be asked after each poll, with what it brought. A poll that brings nothing says only
        of files that there is nothing more: a reply may be on its way. ``cursor``: how far the
        history has been read, ``head``: the newest announcement."""
        self._reached = max(self._reached, cursor or 0, records[-1].sequence if records else 0)
        if self._has_arrived:
            return False
        if head is None and not reads_files:
            return bool(records)
        if head is not None and self._target is None:
            self._target = head.update, now_s
        if self._target is None:
            is_there = not records
        else:
            update, since_s = self._target
            is_there = self._reached >= update or now_s - since_s >= PATIENCE_S
            is_there = is_there or (reads_files and not records)
        # Where nothing is known yet, nothing has been reached.
        self._has_arrived = is_there and (head is not None or self._reached > 0)
        return not is_there
