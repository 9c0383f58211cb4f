"""Reduction over ranks: packed partials of many suppliers to one value per tag. Pure.

A supplier is one source's vector for one iteration. Values are totals with weights, so a
mean over ranks is sum(totals) / sum(weights): a mean of means would be wrong as soon as two
ranks average over different counts. numpy float64, added in rank order; equal to an
all-reduce within 1e-12 relative. Measured: 64 suppliers of 60 tags in about 0.1 ms when
they share a key set, which is why suppliers are grouped by key set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unilab_metrics.aggregate.folding.packed import Float64s
from unilab_schema.metrics import MetricSpec, MetricTable, OverRanks

Columns = NDArray[np.intp]

MEAN, SUM, RANK0, MIN, MAX = range(5)
_OPERATION: dict[OverRanks, int] = {
    "mean": MEAN,
    "sum": SUM,
    "rank0": RANK0,
    "min": MIN,
    "max": MAX,
}


class Supplier(NamedTuple):
    """One source's values for one iteration.

    ``columns`` are column numbers of :class:`TagColumns`; ``weights`` is ``None`` when every
    weight is 1. ``zero_fill`` names columns that count as 0.0 here when another supplier
    has them: the phases of a learner that measured its iteration wall.
    """

    rank: int
    columns: Columns
    totals: Float64s
    weights: Float64s | None
    zero_fill: Columns | None = None
    already_reduced: bool = False


class Reduced(NamedTuple):
    """Columns that got a value, ascending, and their values."""

    columns: Columns
    values: Float64s


MAX_RUN_TAGS = 100_000
MAX_RUN_TAG_CHARS = 8 * 1024 * 1024
"""Of all names together."""
MAX_KNOWN = 4096
MAX_KNOWN_TAGS = 250_000
"""Key sets whose columns are remembered, and their tags together."""


class TagColumns:
    """Numbers for tags, and how each is reduced over ranks. Grows up to a limit, never
    shrinks."""

    def __init__(self, table: MetricTable, refused: int = 0) -> None:
        self._table = table
        self._numbers: dict[str, int] = {}
        self.tags: list[str] = []
        self.refused = refused
        """How often a tag was named for which there was no room."""
        self._chars = 0
        self._operations = np.zeros(0, dtype=np.int8)
        self._known: dict[tuple[str, ...], Columns] = {}
        self._known_tags = 0

    def admit(self, tags: tuple[str, ...]) -> tuple[str, ...]:
        """The tags that a source announces; an empty name in the place of each new one that
        the run has no room for."""
        admitted: list[str] = []
        for tag in tags:
            number = self._numbers.get(tag)
            if number is not None:
                admitted.append(self.tags[number])
            elif len(self.tags) < MAX_RUN_TAGS and self._chars + len(tag) <= MAX_RUN_TAG_CHARS:
                self._add(tag)
                admitted.append(tag)
            else:
                self.refused += 1
                admitted.append("")
        return tuple(admitted)

    def columns(self, tags: tuple[str, ...]) -> Columns:
        """The numbers of the tags, in the given order, without empty names; new tags get new
        numbers."""
        known = self._known.get(tags)
        if known is None:
            for tag in tags:
                if tag and tag not in self._numbers:
                    self._add(tag)
            numbers = [self._numbers[tag] for tag in tags if tag]
            if len(self._known) >= MAX_KNOWN or self._known_tags > MAX_KNOWN_TAGS:
                self._known.clear()
                self._known_tags = 0
            known = self._known[tags] = np.array(numbers, dtype=np.intp)
            self._known_tags += len(tags)
        return known

    def _add(self, tag: str) -> None:
        self._numbers[tag] = len(self.tags)
        self.tags.append(tag)
        self._chars += len(tag)

    def known(self, tag: str) -> int | None:
        """The tag's number, ``None`` if it was never seen."""
        return self._numbers.get(tag)

    def names(self, columns: Columns) -> tuple[str, ...]:
        """The tags of the columns."""
        numbers: list[int] = columns.tolist()
        return tuple(self.tags[number] for number in numbers)

    def operations(self) -> NDArray[np.int8]:
        """One operation code per column."""
        missing = len(self.tags) - len(self._operations)
        if missing:
            codes = [_OPERATION[self.spec(tag).over_ranks] for tag in self.tags[-missing:]]
            self._operations = np.concatenate([self._operations, np.array(codes, dtype=np.int8)])
        return self._operations

    def spec(self, tag: str) -> MetricSpec:
        """How the tag is reduced; an unknown one is mean over ranks, last over time."""
        return self._table.reduction(tag)

    def unregistered(self) -> list[str]:
        """Tags that the table does not know, in the order in which they came."""
        return [tag for tag in self.tags if self._table.spec(tag) is None]

    def define(self, spec: MetricSpec) -> None:
        """A user's spec takes effect for later reductions."""
        self._table.define(spec)
        head, star, tail = spec.tag.partition("*")
        for number in range(len(self._operations)):
            tag = self.tags[number]
            if tag == spec.tag or (star and tag.startswith(head) and tag.endswith(tail)):
                self._operations[number] = _OPERATION[self.spec(tag).over_ranks]


def reduce_over_ranks(suppliers: Iterable[Supplier], columns: TagColumns) -> Reduced:
    """Reduce one iteration. ``suppliers`` come in the order of rank, role, instance."""
    ordered = list(suppliers)
    shared = [s for s in ordered if not s.already_reduced]
    given = [s for s in ordered if s.already_reduced and s.rank == 0]
    accumulator = _Accumulator(len(columns.tags))
    with np.errstate(over="ignore", invalid="ignore"):
        for group in _groups(shared):
            accumulator.add(group)
        _fill_zeros(shared, accumulator)
        values = accumulator.finish(columns.operations())
        present = accumulator.counts > 0
        for supplier in given:
            values[supplier.columns] = _means(supplier)
            present[supplier.columns] = True
    present_columns = np.flatnonzero(present)
    return Reduced(present_columns, values[present_columns])


class _Group(NamedTuple):
    columns: Columns
    totals: Float64s  # (suppliers, columns)
    weights: Float64s | None
    ranks: tuple[int, ...]


def _groups(suppliers: Sequence[Supplier]) -> list[_Group]:
    by_columns: dict[int, list[Supplier]] = {}
    for supplier in suppliers:
        # TagColumns returns the same array for the same tags, so identity is equality.
        by_columns.setdefault(id(supplier.columns), []).append(supplier)
    groups: list[_Group] = []
    for members in by_columns.values():
        weights = None
        if any(m.weights is not None for m in members):
            weights = _stacked(
                [np.ones(len(m.totals)) if m.weights is None else m.weights for m in members]
            )
        groups.append(
            _Group(
                members[0].columns,
                _stacked([m.totals for m in members]),
                weights,
                tuple(m.rank for m in members),
            )
        )
    return groups


def _stacked(rows: Sequence[Float64s]) -> Float64s:
    # A third of what np.stack costs, for rows as short as ours.
    return np.reshape(np.concatenate(rows), (len(rows), -1))


class _Accumulator:
    def __init__(self, size: int) -> None:
        self.counts = np.zeros(size)
        self._totals = np.zeros(size)
        self._weights = np.zeros(size)
        self._rank0 = np.full(size, np.nan)
        self._rank0_present = np.zeros(size, dtype=bool)
        self._min = np.full(size, np.inf)
        self._max = np.full(size, -np.inf)
        self._finite = np.ones(size, dtype=bool)
        self._groups: list[_Group] = []

    def add(self, group: _Group) -> None:
        cols = group.columns
        if group.weights is None:
            means = totals = low_of = high_of = group.totals
            self.counts[cols] += len(group.totals)
            self._weights[cols] += len(group.totals)
        else:
            supplied = group.weights != 0
            means = np.where(
                supplied, group.totals / np.where(supplied, group.weights, 1.0), np.nan
            )
            self.counts[cols] += supplied.sum(axis=0)
            self._weights[cols] += group.weights.sum(axis=0)
            totals = np.where(supplied, group.totals, 0.0)
            low_of = np.where(supplied, means, np.inf)
            high_of = np.where(supplied, means, -np.inf)
        self._totals[cols] += totals.sum(axis=0)
        self._finite[cols] &= np.isfinite(totals).all(axis=0)
        self._min[cols] = np.minimum(self._min[cols], low_of.min(axis=0))
        self._max[cols] = np.maximum(self._max[cols], high_of.max(axis=0))
        for row, rank in enumerate(group.ranks):
            if rank == 0:
                is_fresh = ~self._rank0_present[cols]
                if group.weights is not None:
                    is_fresh &= group.weights[row] != 0
                fresh = cols[is_fresh]
                self._rank0[fresh] = means[row][is_fresh]
                self._rank0_present[fresh] = True
        self._groups.append(group)

    def add_zeros(self, cols: Columns) -> None:
        self.counts[cols] += 1
        self._weights[cols] += 1

    def finish(self, operations: NDArray[np.int8]) -> Float64s:
        values = self._totals / np.where(self._weights != 0, self._weights, 1.0)
        overflowed = np.flatnonzero(
            self._finite & ~np.isfinite(values) & (self.counts > 0) & (operations == MEAN)
        )
        for column in overflowed.tolist():
            values[column] = self._mean_of_large(column)
        values = np.where(operations == SUM, self._totals, values)
        values = np.where(operations == MIN, self._min, values)
        values = np.where(operations == MAX, self._max, values)
        rank0 = operations == RANK0
        values = np.where(rank0, self._rank0, values)
        self.counts = np.where(rank0, self._rank0_present, self.counts)
        return values

    def _mean_of_large(self, column: int) -> float:
        """The mean of finite values whose sum overflows: scale before adding."""
        weight = self._weights[column]
        total = 0.0
        for group in self._groups:
            for position in np.flatnonzero(group.columns == column).tolist():
                total += float((group.totals[:, position] / weight).sum())
        return total


def _fill_zeros(suppliers: Sequence[Supplier], accumulator: _Accumulator) -> None:
    if len({id(s.columns) for s in suppliers if s.zero_fill is not None}) < 2:
        return
    present = accumulator.counts > 0
    for supplier in suppliers:
        if supplier.zero_fill is None:
            continue
        missing = np.setdiff1d(supplier.zero_fill, supplier.columns)
        accumulator.add_zeros(missing[present[missing]])


def _means(supplier: Supplier) -> Float64s:
    if supplier.weights is None:
        return supplier.totals
    return supplier.totals / np.where(supplier.weights != 0, supplier.weights, np.nan)
