"""Courses for charts: made-up updates as records, as blocks of the history, and in a store."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import numpy as np

from unilab_metrics.aggregate.journaling.binning import BLOCK_ENTRIES, Binner, block_start
from unilab_metrics.subscribe.history import HistoryRecord
from unilab_schema.updates import BinBlock, Update
from unilab_sidecar.charting.bins import Field, Float64s, new_table, put_values
from unilab_sidecar.charting.store import ChartStore, HistoryPiece

TAG = "Loss/critic"


def update(
    sequence: int,
    values: Sequence[float],
    *,
    iteration: int | None = None,
    attempt: int = 1,
    env_steps: int | None = -1,
) -> Update:
    """The update with its sequence as iteration, 256 environment steps and a tenth of a second."""
    at = sequence if iteration is None else iteration
    return Update(
        attempt, at, 256 * at if env_steps == -1 else env_steps, at * 10**8, at * 10**8, at / 10,
        1, 1, 1, struct.pack(f"<{len(values)}d", *values),
    )  # fmt: skip


def record(
    sequence: int, tags: tuple[str, ...], values: Sequence[float], **more: int | None
) -> HistoryRecord:
    return HistoryRecord(sequence, update(sequence, values, **more), tags)  # type: ignore[arg-type]


def records_of(values: Sequence[float], tag: str = TAG, *, first: int = 1) -> list[HistoryRecord]:
    """One update per value, from sequence ``first`` on."""
    tags = (tag,)
    return [record(first + place, tags, [value]) for place, value in enumerate(values)]


def blocks_of(records: Sequence[HistoryRecord]) -> tuple[BinBlock, ...]:
    """What the aggregator keeps of them: its whole blocks."""
    made: list[BinBlock] = []
    binner = Binner(1)
    names: list[str] = []
    for one in records:
        if not binner.holds(one.sequence):
            made += binner.block(names)
            binner = Binner(block_start(one.sequence))
        names += [tag for tag in one.tags if tag not in names]
        columns = np.array([names.index(tag) for tag in one.tags], dtype=np.intp)
        assert isinstance(one.entry, Update)
        binner.add(one.entry, columns, one.values())
    if records and records[-1].sequence % BLOCK_ENTRIES == 0:
        made += binner.block(names)
    return tuple(made)


def store_of(
    courses: Mapping[str, Sequence[float]], *, max_bins: int = 4096, attempts: Sequence[int] = ()
) -> ChartStore:
    """A store with these tags' values, one update each. ``attempts``: iterations at which the
    training began again, each at half of it."""
    store = ChartStore(max_bins=max_bins)
    store.keep(courses)
    store.add_piece(HistoryPiece(tuple(courses), 0, 0, complete=True))
    tags = tuple(courses)
    attempt, iteration = 1, 0
    made: list[HistoryRecord] = []
    for sequence, values in enumerate(zip(*courses.values(), strict=True), start=1):
        iteration += 1
        if sequence in attempts:
            attempt, iteration = attempt + 1, iteration // 2
        made.append(record(sequence, tags, values, iteration=iteration, attempt=attempt))
    store.add_records(made)
    return store


def bins_of(values: Sequence[float] | Float64s, attempt: int = 1, first: int = 1) -> Float64s:
    """A table of bins, one per value."""
    table = new_table(len(values))
    put_values(table, np.asarray(values, dtype=np.float64))
    at = np.arange(first, first + len(values), dtype=np.float64)
    for begin, factor in (
        (Field.ITERATION_FROM, 1.0),
        (Field.ENV_STEPS_FROM, 256.0),
        (Field.TIME_FROM, 0.1),
        (Field.UNIX_FROM, 0.1),
    ):
        table[begin] = table[begin + 1] = at * factor
    table[Field.ATTEMPT] = attempt
    return table
