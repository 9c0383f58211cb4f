"""The courses that the charts draw, out of what the feed hands over. Pure.

Until somebody asks the feed for the past, a tag's course begins when it is first kept: the usual
ones with the run, any other when it is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from unilab_sidecar.chart_store import ChartStore, HistoryPiece

if TYPE_CHECKING:
    from unilab_metrics.subscribe.history import HistoryRecord

_MOST_HELD = 50_000
"""Records that wait while the display is paused; more than that, and the charts go on."""


class ChartKeeping:
    """One owner, no locks."""

    def __init__(self, usual: Callable[[tuple[str, ...]], tuple[str, ...]]) -> None:
        """``usual``: those of a run's tags that are kept unasked."""
        self.store = ChartStore()
        self._usual = usual
        self._kept_unasked: tuple[str, ...] = ()
        self._chosen: tuple[str, ...] = ()
        self._layout: tuple[str, ...] | None = None
        self._through = 0
        self._held: list[HistoryRecord] = []

    def choose(self, tags: tuple[str, ...]) -> None:
        """These are drawn."""
        if tags != self._chosen:
            self._chosen = tags
            self._keep()

    def add(self, records: Iterable[HistoryRecord], *, is_paused: bool) -> None:
        """Takes live records; they are drawn once the display is live."""
        for record in records:
            if record.tags and record.tags is not self._layout:
                self._layout = record.tags
                self._find_usual(record.tags)
            self._held.append(record)
        if self._held and (not is_paused or len(self._held) > _MOST_HELD):
            self.store.add_records(self._held)
            self._through = self._held[-1].sequence
            self._held.clear()

    def _find_usual(self, tags: tuple[str, ...]) -> None:
        new = [tag for tag in self._usual(tags) if tag not in self._kept_unasked]
        if new:
            self._kept_unasked = (*self._kept_unasked, *new)
            self._keep()

    def _keep(self) -> None:
        self.store.keep([*self._chosen, *self._kept_unasked])
        if new := tuple(one.tag for one in self.store.wanted):
            self.store.add_piece(HistoryPiece(new, 0, self._through, complete=True))
