"""The course of one tag in bounded memory: bins of updates. Pure, numpy.

Single updates come as bins of one, blocks of the history as bins of a thousand. When the bins
are full, neighbours join on a grid that is twice as coarse, as often as it takes to free a
quarter. Minimum and maximum are kept exactly, so no spike is ever lost; newer stretches stay
finer than old ones until their turn comes.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

MAX_BINS = 4096
"""Per tag; with the fields below about half a megabyte."""
_FIRST_BINS = 64
_FREED = 3 / 4
_ATTEMPT_APART = 2.0**42
"""More iterations than an attempt has: both in one number, in the order of their coming."""

Float64s = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
XAxis = Literal["iteration", "env_steps", "time"]


class Field(IntEnum):
    """A row of the table of bins.

    ``MINIMUM``, ``MAXIMUM`` (infinite the wrong way round if there is none), ``MEAN`` and
    ``COUNT`` are over the finite values; ``LATEST`` is as it was. ``NANS``, ``INFINITIES`` and
    ``STRANGE`` (one or the other, a block does not say) count the rest. ``NOT_POSITIVE`` counts
    finite values that a logarithm cannot show. Ranges of ``env_steps`` and ``time``
    (``elapsed_s``) may be NaN: unknown. ``SEQUENCE_FROM`` and ``_TO``: the history entries that it
    is made of, without those that came late.
    """

    MINIMUM = 0
    MAXIMUM = 1
    MEAN = 2
    COUNT = 3
    LATEST = 4
    NANS = 5
    INFINITIES = 6
    STRANGE = 7
    NOT_POSITIVE = 8
    ITERATION_FROM = 9
    ITERATION_TO = 10
    ENV_STEPS_FROM = 11
    ENV_STEPS_TO = 12
    TIME_FROM = 13
    TIME_TO = 14
    UNIX_FROM = 15
    UNIX_TO = 16
    ATTEMPT = 17
    SEQUENCE_FROM = 18
    SEQUENCE_TO = 19


_FIELDS = len(Field)
_SUMMED = [Field.COUNT, Field.NANS, Field.INFINITIES, Field.STRANGE, Field.NOT_POSITIVE]
_LOWEST = [Field.MINIMUM, Field.ITERATION_FROM, Field.ENV_STEPS_FROM, Field.TIME_FROM,
           Field.UNIX_FROM, Field.SEQUENCE_FROM]  # fmt: skip
_HIGHEST = [Field.MAXIMUM, Field.ITERATION_TO, Field.ENV_STEPS_TO, Field.TIME_TO,
            Field.UNIX_TO, Field.ATTEMPT, Field.SEQUENCE_TO]  # fmt: skip
_SEQUENCES = [Field.SEQUENCE_FROM, Field.SEQUENCE_TO]
_AXES: dict[XAxis, tuple[Field, Field]] = {
    "iteration": (Field.ITERATION_FROM, Field.ITERATION_TO),
    "env_steps": (Field.ENV_STEPS_FROM, Field.ENV_STEPS_TO),
    "time": (Field.TIME_FROM, Field.TIME_TO),
}


class Span(NamedTuple):
    """From where to where, on one axis."""

    low: float
    high: float


class Bins:
    """A table of bins in the order of their coming, a row per :class:`Field`, not to be changed."""

    def __init__(self, table: Float64s) -> None:
        self.table = table

    def __len__(self) -> int:
        return self.table.shape[1]

    def __getitem__(self, field: Field) -> Float64s:
        return self.table[field]

    def where(self, wanted: Bools) -> Bins:
        """Some of the bins; no copy if they lie together."""
        places = np.flatnonzero(wanted)
        count = len(places)
        if count and places[-1] - places[0] + 1 == count:
            return Bins(self.table[:, places[0] : places[0] + count])
        return Bins(self.table[:, places])

    def along(self, axis: XAxis) -> tuple[Float64s, Float64s]:
        """Where each bin begins and ends on an axis; NaN where that is unknown."""
        first, last = _AXES[axis]
        return self.table[first], self.table[last]

    def span(self, axis: XAxis) -> Span | None:
        """What they cover together, ``None`` if nothing is known."""
        first, last = self.along(axis)
        known = np.isfinite(first) & np.isfinite(last)
        return Span(float(first[known].min()), float(last[known].max())) if known.any() else None

    @property
    def updates(self) -> Float64s:
        """How many values each bin stands for, finite or not."""
        return self.table[Field.COUNT] + self.not_finite

    @property
    def not_finite(self) -> Float64s:
        """NaN and infinities per bin."""
        return self.table[Field.NANS : Field.STRANGE + 1].sum(axis=0)


NO_BINS = Bins(np.empty((_FIELDS, 0)))


def new_table(count: int) -> Float64s:
    """Room for ``count`` bins; everything is 0 until it is written."""
    return np.zeros((_FIELDS, count))


def put_values(table: Float64s, values: Float64s) -> None:
    """Writes the fields that single values have, one bin each."""
    is_finite = np.isfinite(values)
    table[Field.MINIMUM] = np.where(is_finite, values, np.inf)
    table[Field.MAXIMUM] = np.where(is_finite, values, -np.inf)
    table[Field.MEAN] = np.where(is_finite, values, 0.0)
    table[Field.COUNT] = is_finite
    table[Field.LATEST] = values
    table[Field.NANS] = np.isnan(values)
    table[Field.INFINITIES] = np.isinf(values)
    table[Field.NOT_POSITIVE] = is_finite & (values <= 0)


class Course:
    """A tag's bins while they come in. One owner; ``resolution``: values per bin of the grid."""

    def __init__(self, max_bins: int = MAX_BINS, *, is_part: bool = False) -> None:
        """``max_bins``: at least 8. ``is_part``: there is more of it elsewhere, before these."""
        self._is_part = is_part
        self._max_bins = max(max_bins, 8)
        self._table = new_table(min(_FIRST_BINS, self._max_bins))
        self._size = 0
        self.resolution = 1

    def bins(self) -> Bins:
        """The bins so far, valid until more are added."""
        return Bins(self._table[:, : self._size])

    def extend(self, table: Float64s) -> None:
        """Takes further bins. What belongs before an iteration of the same attempt that is
        already here (a supplement) joins the bin where it belongs."""
        late = self._late(table)
        if not late.any():
            self._append(table)
            return
        self._append(table[:, ~late])
        for at in np.flatnonzero(late).tolist():
            if not self._join(table[:, at]):
                self._append(table[:, at : at + 1])

    def _append(self, table: Float64s) -> None:
        at, count = 0, table.shape[1]
        while at < count:
            room = self._room(count - at)
            self._table[:, self._size : self._size + room] = table[:, at : at + room]
            self._size += room
            at += room

    def _late(self, table: Float64s) -> Bools:
        ends = table[Field.ATTEMPT] * _ATTEMPT_APART + table[Field.ITERATION_TO]
        begins = table[Field.ATTEMPT] * _ATTEMPT_APART + table[Field.ITERATION_FROM]
        newest = -np.inf
        if self._size:
            last = self._table[:, self._size - 1]
            newest = last[Field.ATTEMPT] * _ATTEMPT_APART + last[Field.ITERATION_TO]
        before = np.concatenate([[newest], ends[:-1]])
        return begins < np.maximum.accumulate(before)

    def _join(self, column: Float64s) -> bool:
        present = self._table[:, : self._size]
        at_work = np.flatnonzero(present[Field.ATTEMPT] == column[Field.ATTEMPT])
        if not len(at_work):
            return False
        begins: Float64s = present[Field.ITERATION_FROM][at_work]
        wanted = float(column[Field.ITERATION_FROM])
        place = int(np.searchsorted(begins, wanted, side="right")) - 1
        if place < 0 and self._is_part:
            # It belongs to what was not asked for.
            return True
        at = int(at_work[max(place, 0)])
        pair = np.empty((_FIELDS, 2))
        # The newest value stays the latest.
        is_older = column[Field.ITERATION_TO] < self._table[Field.ITERATION_TO, at]
        pair[:, int(is_older)] = self._table[:, at]
        pair[:, 1 - int(is_older)] = column
        sequences = self._table[_SEQUENCES, at]
        self._table[:, at] = joined(pair, np.zeros(1, dtype=np.intp))[:, 0]
        self._table[_SEQUENCES, at] = sequences
        return True

    def _room(self, wanted: int) -> int:
        capacity = self._table.shape[1]
        if self._size == capacity and capacity < self._max_bins:
            wider = new_table(min(capacity * 2, self._max_bins))
            wider[:, : self._size] = self._table
            self._table, capacity = wider, wider.shape[1]
        elif self._size == capacity:
            self._coarsen()
        return min(wanted, capacity - self._size)

    def _coarsen(self) -> None:
        table = self._table[:, : self._size]
        updates = Bins(table).updates
        begins = np.cumsum(updates) - updates
        most = self._max_bins * _FREED
        attempt_begins = np.diff(table[Field.ATTEMPT]) != 0
        if np.count_nonzero(attempt_begins) >= most / 2:
            # A run of thousands of attempts has no other way out.
            attempt_begins[:] = False
        while True:
            # What came since the last time may still be finer than the grid.
            apart = (np.diff(np.floor(begins / self.resolution)) != 0) | attempt_begins
            if np.count_nonzero(apart) < most:
                break
            self.resolution *= 2
        firsts = np.concatenate([[0], np.flatnonzero(apart) + 1]).astype(np.intp)
        fewer = joined(table, firsts)
        self._size = fewer.shape[1]
        self._table[:, : self._size] = fewer


def joined(table: Float64s, firsts: npt.NDArray[np.intp]) -> Float64s:
    """Neighbouring bins as one; ``firsts``: which ones begin a new bin, rising from 0."""
    fewer = np.empty((_FIELDS, len(firsts)))
    fewer[_SUMMED] = np.add.reduceat(table[_SUMMED], firsts, axis=1)
    fewer[_LOWEST] = np.fmin.reduceat(table[_LOWEST], firsts, axis=1)
    fewer[_HIGHEST] = np.fmax.reduceat(table[_HIGHEST], firsts, axis=1)
    lasts = np.append(firsts[1:], table.shape[1]) - 1
    fewer[Field.LATEST] = table[Field.LATEST, lasts]
    # Shares and not sums: what is finite must stay so.
    counts = np.repeat(np.maximum(fewer[Field.COUNT], 1.0), lasts - firsts + 1)
    shares = table[Field.COUNT] / counts
    means = np.add.reduceat(table[Field.MEAN] * shares, firsts)
    has_values = fewer[Field.COUNT] > 0
    low = np.where(has_values, fewer[Field.MINIMUM], 0.0)
    high = np.where(has_values, fewer[Field.MAXIMUM], 0.0)
    fewer[Field.MEAN] = np.minimum(np.maximum(means, low), high)
    return fewer
