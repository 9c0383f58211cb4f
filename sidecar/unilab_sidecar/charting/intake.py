"""Tables of bins out of what the history consists of: blocks, updates, points. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from unilab_schema.frames import Point
from unilab_schema.updates import BinBlock, Supplement, Update
from unilab_sidecar.charting.bins import Field, Float64s, new_table, put_values

if TYPE_CHECKING:
    from unilab_metrics.subscribe.history import HistoryRecord

_NS = 1e-9


def of_records(records: Sequence[HistoryRecord], places: Sequence[int]) -> list[Float64s]:
    """Updates and supplements of one layout: a table per place among their tags, a bin each."""
    entries = [r.entry for r in records if isinstance(r.entry, Update | Supplement)]
    if not entries or not places:
        return [new_table(0) for _ in places]
    base = new_table(len(entries))
    for begin, ends in (
        (Field.ITERATION_FROM, [entry.iteration for entry in entries]),
        (Field.ENV_STEPS_FROM, [entry.env_steps for entry in entries]),
        (Field.TIME_FROM, [entry.elapsed_s for entry in entries]),
        (Field.UNIX_FROM, [entry.unix_ns * _NS for entry in entries]),
    ):
        base[begin : begin + 2] = np.array(ends, dtype=np.float64)
    base[Field.ATTEMPT] = [entry.attempt for entry in entries]
    base[Field.SEQUENCE_FROM : Field.SEQUENCE_TO + 1] = [
        one.sequence for one in records if isinstance(one.entry, Update | Supplement)
    ]
    values = np.array([record.values()[places] for record in records])
    tables: list[Float64s] = []
    for column in range(len(places)):
        table = np.array(base)
        put_values(table, values[:, column])
        tables.append(table)
    return tables


def of_blocks(blocks: Iterable[BinBlock]) -> Iterator[tuple[str, Float64s]]:
    """Blocks of the history: tables of some of a tag's bins, in the order of the blocks."""
    for tags, alike in groupby(blocks, key=lambda block: block.tags):
        group = list(alike)
        base = new_table(len(group))
        for begin, ends in (
            (Field.ITERATION_FROM, [block.iteration_range for block in group]),
            (Field.ENV_STEPS_FROM, [b.env_steps_range or (np.nan, np.nan) for b in group]),
            (Field.TIME_FROM, [block.elapsed_s_range for block in group]),
            (Field.UNIX_FROM, [block.unix_ns_range for block in group]),
        ):
            both = np.array(ends, dtype=np.float64) * (_NS if begin == Field.UNIX_FROM else 1.0)
            # They are those of the first and of the last update, which a restart may turn round.
            base[begin], base[begin + 1] = both.min(axis=1), both.max(axis=1)
        base[Field.ATTEMPT] = [block.attempt for block in group]
        base[Field.SEQUENCE_FROM] = [block.first for block in group]
        base[Field.SEQUENCE_TO] = [block.last for block in group]
        count = _columns([block.count for block in group])
        low = _columns([block.minimum for block in group])
        high = _columns([block.maximum for block in group])
        mean = _columns([block.mean for block in group])
        latest = _columns([block.latest for block in group])
        none = bytes(8 * len(tags))
        strange = _columns([block.not_finite or none for block in group])
        for place, tag in enumerate(tags):
            table = np.array(base)
            bounds = low[:, place], high[:, place]
            _put_brief(table, count[:, place], *bounds, mean[:, place], latest[:, place])
            _put_strange(table, strange[:, place])
            yield tag, table


class Clock(NamedTuple):
    """What time it was in an attempt's training, on the wall and since its start."""

    unix_ns: int
    elapsed_s: float


def of_point(point: Point, attempt: int, sequence: int, clock: Clock | None) -> Float64s:
    """A point on an axis of its own: its step counts as iteration. ``sequence``: of its entry,
    ``clock``: of its attempt."""
    table = new_table(1)
    put_values(table, np.array([point.value]))
    elapsed_s = np.nan
    if clock is not None:
        elapsed_s = clock.elapsed_s + (point.unix_ns - clock.unix_ns) * _NS
    table[Field.ITERATION_FROM : Field.ITERATION_TO + 1] = point.step
    table[Field.ENV_STEPS_FROM : Field.ENV_STEPS_TO + 1] = np.nan
    table[Field.TIME_FROM : Field.TIME_TO + 1] = elapsed_s
    table[Field.UNIX_FROM : Field.UNIX_TO + 1] = point.unix_ns * _NS
    table[Field.ATTEMPT] = attempt
    table[Field.SEQUENCE_FROM : Field.SEQUENCE_TO + 1] = sequence
    return table


def gap_between(before: Float64s, behind: Float64s) -> Float64s:
    """A bin without values between two tables of an attempt; none where they meet."""
    table = new_table(1)
    last, first = before[:, -1:], behind[:, :1]
    if not last.size or not first.size or last[Field.ATTEMPT] != first[Field.ATTEMPT]:
        return new_table(0)
    put_values(table, np.array([np.nan]))
    table[Field.NANS] = 0
    for begin in (
        Field.ITERATION_FROM, Field.ENV_STEPS_FROM, Field.TIME_FROM, Field.UNIX_FROM
    ):  # fmt: skip
        table[begin : begin + 2] = (last[begin + 1] + first[begin]) / 2
    table[Field.ATTEMPT] = first[Field.ATTEMPT]
    table[Field.SEQUENCE_FROM : Field.SEQUENCE_TO + 1] = last[Field.SEQUENCE_TO]
    is_behind = first[Field.ITERATION_FROM] > last[Field.ITERATION_TO]
    return table if is_behind.all() else new_table(0)


def _columns(packed: Sequence[bytes]) -> Float64s:
    return np.array([np.frombuffer(one, dtype="<f8") for one in packed])


def _put_brief(
    table: Float64s,
    count: Float64s,
    low: Float64s,
    high: Float64s,
    mean: Float64s,
    latest: Float64s,
) -> None:
    has_values = count > 0
    table[Field.MINIMUM] = np.where(has_values, low, np.inf)
    table[Field.MAXIMUM] = np.where(has_values, high, -np.inf)
    table[Field.MEAN] = np.where(has_values, np.minimum(np.maximum(mean, low), high), 0.0)
    table[Field.COUNT], table[Field.LATEST] = count, latest
    # How many are not positive a block says only if all are; else of one at least it is known.
    table[Field.NOT_POSITIVE] = np.where(high <= 0, count, has_values & (low <= 0))


def _put_strange(table: Float64s, strange: Float64s) -> None:
    """Of the values that are not finite only the last one's kind is known."""
    latest = table[Field.LATEST]
    table[Field.NANS], table[Field.INFINITIES] = np.isnan(latest), np.isinf(latest)
    known = table[Field.NANS] + table[Field.INFINITIES]
    table[Field.STRANGE] = np.maximum(strange - known, 0)
