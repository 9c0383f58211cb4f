"""For how long a condition has held on each of many tags, and which alert says so. Pure.

Whole updates at a time: a flood of NaN in twelve thousand tags costs a few array operations.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.intp]
Flags = NDArray[np.bool_]

Packed = list[tuple[int, ...]]

GONE_NS = 600_000_000_000
GONE_UPDATES = 1_000
"""A tag in an alert that has had no value for so long, in time and in updates, is not logged any
more. Both, because an evaluation may take an hour, and a fast loop has a thousand updates in
one."""
UNKNOWN_NS = 2**62
"""A time that is put right with the next update."""


class Hold(NamedTuple):
    """``clear_updates``: values in a row without the condition that end an alert."""

    hold_ns: int
    updates: int
    clear_updates: int


class Step(NamedTuple):
    """``ripe``: places whose alert is due. ``cleared``: alerts that have lost as many tags that are
    well again; ``gone``: as many that are not logged any more."""

    ripe: Places
    cleared: dict[int, int]
    gone: dict[int, int]


_NONE = np.zeros(0, dtype=np.intp)
NOTHING = Step(_NONE, {}, {})


class Tracking:
    """One rule's. A place is a position in ``columns``, which only grows. Of a place in an alert,
    ``since`` and ``seen`` are when it last had a value: time, and number of the update."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold
        self.columns: Places = _NONE
        self._since_ns = np.zeros(0, dtype=np.int64)
        self._count = np.zeros(0, dtype=np.int64)
        self._clear = np.zeros(0, dtype=np.int64)
        self._alert = np.zeros(0, dtype=np.int64)
        self._seen = np.zeros(0, dtype=np.int64)
        self.is_active = False

    def grow(self, columns: Iterable[int]) -> None:
        """Watch more columns, ascending and beyond those that are watched."""
        more = np.fromiter(columns, dtype=np.intp)
        if not len(more):
            return
        self.columns = np.concatenate([self.columns, more])
        empty = np.zeros(len(more), dtype=np.int64)
        self._since_ns = np.concatenate([self._since_ns, empty])
        self._count = np.concatenate([self._count, empty])
        self._clear = np.concatenate([self._clear, empty])
        self._alert = np.concatenate([self._alert, empty])
        self._seen = np.concatenate([self._seen, empty])

    def step(self, places: Places, holds: Flags, mono_ns: int, number: int) -> Step:
        """Take the update of this number: at each place whether the condition holds."""
        if not self.is_active and not holds.any():
            return NOTHING
        held, free = places[holds], places[~holds]
        fresh = held[self._count[held] == 0]
        self._since_ns[fresh] = mono_ns
        # Another boot's clock may be behind: nothing has lasted for a time that is unknown.
        self._since_ns[held] = np.minimum(self._since_ns[held], mono_ns)
        self._count[held] += 1
        self._clear[held] = 0
        lasted = mono_ns - self._since_ns[held] >= self._hold.hold_ns
        untold = self._alert[held] == 0
        ripe = held[untold & lasted & (self._count[held] >= self._hold.updates)]
        in_alert = places[self._alert[places] > 0]
        self._since_ns[in_alert], self._seen[in_alert] = mono_ns, number
        told = self._alert[free] > 0
        self._count[free[~told]] = 0
        told_free = free[told]
        self._clear[told_free] += 1
        cleared = self._leave(told_free[self._clear[told_free] >= self._hold.clear_updates])
        gone = self._leave(self._absent(mono_ns, number))
        self.is_active = bool(self._count.any())
        return Step(ripe, cleared, gone)

    def tell(self, places: Places, alert: int, mono_ns: int, number: int) -> None:
        """These places are in that alert, as of that update."""
        self._alert[places] = alert
        self._count[places] = np.maximum(self._count[places], 1)
        self._since_ns[places], self._seen[places] = mono_ns, number
        self.is_active = self.is_active or len(places) > 0

    def _leave(self, places: Places) -> dict[int, int]:
        """Take places out of their alerts; how many of each."""
        if not len(places):
            return {}
        alerts, counts = np.unique(self._alert[places], return_counts=True)
        self._forget(places)
        return dict(zip(alerts.tolist(), counts.tolist(), strict=True))

    def _absent(self, mono_ns: int, number: int) -> Places:
        told = np.flatnonzero(self._alert)
        # Another boot's clock may be behind.
        self._since_ns[told] = np.minimum(self._since_ns[told], mono_ns)
        is_long = mono_ns - self._since_ns[told] >= GONE_NS
        return told[is_long & (number - self._seen[told] >= GONE_UPDATES)]

    def place(self, column: int) -> int | None:
        """Where a column is, if it is watched and in no alert."""
        at = int(np.searchsorted(self.columns, column))
        is_here = at < len(self.columns) and self.columns[at] == column
        return at if is_here and not self._alert[at] else None

    def free(self, places: Places) -> Places:
        """Those that are in no alert."""
        return places[self._alert[places] == 0]

    def clear(self) -> None:
        """Forget what has held."""
        self._forget(np.arange(len(self.columns), dtype=np.intp))
        self.is_active = False

    def packed(self) -> Packed:
        """What :meth:`restore` takes; ints, the places that count for something only."""
        at = np.flatnonzero(self._count)
        arrays = (
            self.columns, self._since_ns, self._count, self._clear, self._alert, self._seen,
        )  # fmt: skip
        return list(zip(*(array[at].tolist() for array in arrays), strict=True))

    def restore(self, packed: Packed) -> None:
        """Go on from a snapshot; the columns are watched already."""
        for column, since_ns, count, clear, alert, seen in packed:
            at = int(np.searchsorted(self.columns, column))
            if at < len(self.columns) and self.columns[at] == column:
                self._since_ns[at], self._count[at], self._seen[at] = since_ns, count, seen
                self._clear[at], self._alert[at] = clear, alert
        self.is_active = bool(self._count.any())

    def _forget(self, places: Places) -> None:
        for array in (self._since_ns, self._count, self._clear, self._alert, self._seen):
            array[places] = 0
