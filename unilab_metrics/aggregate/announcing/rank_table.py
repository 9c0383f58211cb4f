"""Each source's values as one table, and each tag over the sources: made when somebody asks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unilab_metrics.aggregate.announcing.rank_means import NEVER, MeantValues, meant_values
from unilab_metrics.aggregate.announcing.serving import MAX_REPLY_BYTES
from unilab_metrics.aggregate.folding.packed import Float64s, pack_values
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.folding.state import AggregatorState
from unilab_schema.codec import MAX_FRAME_TAGS, MAX_TAG_BYTES
from unilab_schema.control import Epoch, SourceStatus
from unilab_schema.rank_values import RankRow, RankSpread
from unilab_schema.requests import Ranks, RankValues

USUAL_TAGS = 100
"""Of an answer to somebody who names none."""
MAX_ROWS = 4096
"""As many as a run may have living sources."""
_ROW_BYTES = 120
_SPREAD_BYTES = 80
_CELL_BYTES = 16
_LEAST_TAGS = 8
"""Rows are left out only where not even as many tags fit beside all of them."""
_OVER = frozenset({"lost", "finished"})


class Told(NamedTuple):
    """A source and what subscribers are told of it."""

    source: SourceState
    status: SourceStatus


class Moment(NamedTuple):
    """Of one answer. ``boot_id``: the aggregator's, whose clock ``mono_ns`` is of."""

    epoch: Epoch
    mono_ns: int
    boot_id: str


def rank_values(
    state: AggregatorState, request: Ranks, told: Sequence[Told], moment: Moment
) -> RankValues:
    """The answer to a request. ``told``: the newest process of each place, in their order."""
    rows = list(told[:MAX_ROWS])
    asked = _asked(state, request, rows)
    count, tags = _fitting(rows, asked)
    table = meant_values(state, [one.source for one in rows], tags)
    ages = _ages_s(table, rows, moment)
    has_value = table.stamps != NEVER
    standing = np.array(_counting(rows), dtype=bool)
    made = tuple(
        RankRow(
            one.status.key,
            one.status.state,
            one.status.age_s,
            one.status.frame_age_s,
            one.source.last_iteration,
            _env_steps(state, one.source),
            one.source.cursor,
            pack_values(table.values[row]),
            pack_values(ages[row]),
            one.status.ended,
            int(table.samples[row]),
        )
        for row, one in enumerate(rows[:count])
    )
    named = len(set(request.tags)) if request.tags else len(asked)
    return RankValues(
        request.request,
        moment.epoch,
        state.data.attempt,
        moment.mono_ns,
        state.ranks_expected(),
        tags,
        made,
        _spreads(table.values, has_value & standing[:, None], rows),
        named - len(tags),
        len(told) - count,
    )


def _counting(rows: Sequence[Told]) -> list[bool]:
    """Whose values are to be compared and added up: of each role those who are at work, while
    somebody is; afterwards all who were not lost."""
    told = [one.status for one in rows]
    at_work = {one.key.role for one in told if one.state not in _OVER}
    return [
        one.state not in _OVER if one.key.role in at_work else one.state != "lost" for one in told
    ]


def _asked(state: AggregatorState, request: Ranks, rows: Iterable[Told]) -> tuple[str, ...]:
    if request.tags:
        short = (tag for tag in request.tags if len(tag) <= MAX_TAG_BYTES)
        return tuple(dict.fromkeys(short))[:MAX_FRAME_TAGS]
    newest = state.newest_frames
    key_sets = {number for one in rows for number in newest.of(one.source.index)}
    tags = {tag: None for number in sorted(key_sets) for tag in newest.tags(number) if tag}
    return tuple(tags)[:USUAL_TAGS]


def _fitting(rows: list[Told], tags: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    """How many rows, and which tags, one message holds."""
    role_bytes = max((4 * len(one.status.key.role) for one in rows), default=0)
    row_bytes = _ROW_BYTES + role_bytes + _CELL_BYTES * min(len(tags), _LEAST_TAGS)
    spread_bytes = _SPREAD_BYTES + 2 * role_bytes
    tag_bytes = [spread_bytes + 5 + 4 * len(tag) for tag in tags]
    room = MAX_REPLY_BYTES - sum(tag_bytes[:_LEAST_TAGS])
    count = min(len(rows), room // row_bytes)
    room -= count * row_bytes
    kept = min(len(tags), _LEAST_TAGS)
    while kept < len(tags) and room >= (more := tag_bytes[kept] + _CELL_BYTES * count):
        room -= more
        kept += 1
    return count, tags[:kept]


def _ages_s(table: MeantValues, told: list[Told], moment: Moment) -> Float64s:
    """Seconds since each value was logged; NaN where there is none."""
    ages = np.full(table.values.shape, np.nan)
    for row, one in enumerate(told):
        known = table.stamps[row] != NEVER
        if one.source.identity.boot_id == moment.boot_id:
            since_ns = moment.mono_ns - table.stamps[row][known]
        else:
            # Another clock: it only tells how much older a value is than the newest one.
            last_s = one.status.age_s if one.status.frame_age_s is None else one.status.frame_age_s
            since_ns = table.newest[row] - table.stamps[row][known] + round(last_s * 1e9)
        ages[row, known] = np.maximum(since_ns, 0) / 1e9
    return ages


def _env_steps(state: AggregatorState, source: SourceState) -> int | None:
    frames = state.newest_frames.of(source.index).values()
    counted = [(frame.mono_ns, frame.env_steps) for frame in frames if frame.env_steps is not None]
    return max(counted)[1] if counted else None


def _spreads(
    values: Float64s, counts: NDArray[np.bool_], rows: list[Told]
) -> tuple[RankSpread, ...]:
    """``counts``: which values are to be reckoned with."""
    is_finite = np.isfinite(values) & counts
    totals: list[int] = is_finite.sum(axis=0).tolist()
    others: list[int] = (counts & ~is_finite).sum(axis=0).tolist()
    if not len(rows):
        return tuple(RankSpread(0, 0) for _ in totals)
    lowest: list[int] = np.where(is_finite, values, np.inf).argmin(axis=0).tolist()
    highest: list[int] = np.where(is_finite, values, -np.inf).argmax(axis=0).tolist()
    # Divided before they are added: the sum of large values may have no end.
    means: list[float] = (
        np.where(is_finite, values / np.maximum(totals, 1), 0.0).sum(axis=0).tolist()
    )
    return tuple(
        RankSpread(
            total,
            other,
            float(values[low, place]),
            mean,
            float(values[high, place]),
            rows[low].status.key,
            rows[high].status.key,
        )
        if total
        else RankSpread(0, other)
        for place, (total, other, mean, low, high) in enumerate(
            zip(totals, others, means, lowest, highest, strict=True)
        )
    )
