"""A long history in brief: per tag and 1,024 entries min, max, mean, count and last. Pure.

Blocks lie on fixed multiples of the update sequence, so a block that was lost with a process
is made again from the history entries that it covers.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from unilab_metrics.aggregate.folding.packed import Float64s, pack_values
from unilab_metrics.aggregate.folding.pieces import ends_of_pieces
from unilab_metrics.aggregate.folding.reduction import Columns
from unilab_metrics.aggregate.journaling.point_bins import PointBins
from unilab_schema.updates import (
    BLOCK_ENTRIES,
    AttemptOpened,
    BinBlock,
    PointsUpdate,
    Supplement,
    Update,
)


def block_start(sequence: int) -> int:
    """The first sequence of the block that holds ``sequence``."""
    return (sequence - 1) // BLOCK_ENTRIES * BLOCK_ENTRIES + 1


class _Ends(NamedTuple):
    first: Update | Supplement
    last: Update | Supplement


class Binner:
    """The block that is being filled. Columns are numbers of the tags, as in ``TagColumns``."""

    def __init__(self, start: int) -> None:
        """``start``: first sequence of the block."""
        self.start = start
        self._ends: _Ends | None = None
        self._low = np.zeros(0)
        self._high = np.zeros(0)
        self._total = np.zeros(0)
        self._count = np.zeros(0)
        self._not_finite = np.zeros(0)
        self._latest = np.zeros(0)
        self._seen = np.zeros(0, dtype=bool)
        self._points = PointBins()

    def holds(self, sequence: int) -> bool:
        """Whether the sequence belongs to this block."""
        return self.start <= sequence < self.start + BLOCK_ENTRIES

    def add(self, update: Update | Supplement, columns: Columns, values: Float64s) -> None:
        """Take an update into account, or what came late for one."""
        if len(columns):
            self._grow(int(columns.max()) + 1)
        is_finite = np.isfinite(values)
        finite, used = columns[is_finite], values[is_finite]
        self._low[finite] = np.minimum(self._low[finite], used)
        self._high[finite] = np.maximum(self._high[finite], used)
        with np.errstate(over="ignore"):
            self._total[finite] += used
        self._count[finite] += 1
        self._not_finite[columns[~is_finite]] += 1
        self._latest[columns] = values
        self._seen[columns] = True
        # What came late is of an earlier iteration: it says where the block lies only as long as
        # there is nothing else in it.
        if self._ends is None or isinstance(self._ends.first, Supplement):
            self._ends = _Ends(update, update)
        elif isinstance(update, Update):
            self._ends = _Ends(self._ends.first, update)

    def add_points(self, update: PointsUpdate, opened: AttemptOpened | None) -> None:
        """Take points into account. ``opened``: the start of their attempt, if it is known."""
        self._points.add(update, opened)

    def block(self, tags: list[str]) -> list[BinBlock]:
        """The block's records; none if it holds no update and no point. ``tags``: names of the
        columns."""
        made = [*self._of_updates(tags), *self._points.blocks(self.start, self._last)]
        if self._ends is not None and self._ends.last.attempt != self._points.attempt > 0:
            # A block is of one attempt, or nobody would look into it for the start of another.
            newest = max(self._ends.last.attempt, self._points.attempt)
            made = [msgspec.structs.replace(one, attempt=newest) for one in made]
        return [
            msgspec.structs.replace(one, part=number, parts=len(made))
            for number, one in enumerate(made)
        ]

    @property
    def _last(self) -> int:
        return self.start + BLOCK_ENTRIES - 1

    def _of_updates(self, tags: list[str]) -> list[BinBlock]:
        if self._ends is None:
            return []
        first, last = self._ends
        columns = np.flatnonzero(self._seen)
        parts: list[Columns] = []
        start = 0
        for end in ends_of_pieces(_names(tags, columns), value_bytes=6 * 8):
            parts.append(columns[start:end])
            start = end
        env_steps = None
        if first.env_steps is not None and last.env_steps is not None:
            env_steps = (first.env_steps, last.env_steps)
        return [
            BinBlock(
                self.start,
                self._last,
                last.attempt,
                (first.iteration, last.iteration),
                env_steps,
                (first.unix_ns, last.unix_ns),
                (first.elapsed_s, last.elapsed_s),
                _names(tags, part),
                *self._packed(part),
                not_finite=pack_values(self._not_finite[part]),
            )
            for part in parts
        ]

    def _packed(self, columns: Columns) -> tuple[bytes, bytes, bytes, bytes, bytes]:
        count = self._count[columns]
        has_values = count > 0
        return (
            pack_values(np.where(has_values, self._low[columns], np.nan)),
            pack_values(np.where(has_values, self._high[columns], np.nan)),
            pack_values(
                np.where(has_values, self._total[columns] / np.maximum(count, 1.0), np.nan)
            ),
            pack_values(count),
            pack_values(self._latest[columns]),
        )

    def _grow(self, size: int) -> None:
        missing = size - len(self._seen)
        if missing <= 0:
            return
        self._low = np.concatenate([self._low, np.full(missing, np.inf)])
        self._high = np.concatenate([self._high, np.full(missing, -np.inf)])
        self._total = np.concatenate([self._total, np.zeros(missing)])
        self._count = np.concatenate([self._count, np.zeros(missing)])
        self._not_finite = np.concatenate([self._not_finite, np.zeros(missing)])
        self._latest = np.concatenate([self._latest, np.full(missing, np.nan)])
        self._seen = np.concatenate([self._seen, np.zeros(missing, dtype=bool)])


def _names(tags: list[str], columns: Columns) -> tuple[str, ...]:
    numbers: list[int] = columns.tolist()
    return tuple(tags[number] for number in numbers)
