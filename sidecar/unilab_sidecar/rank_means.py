"""Every source's values as means over the last seconds, and over the sources. Pure.

An answer of the aggregator has the newest value of each tag of each source; what was logged between
two answers, nobody tells. So a mean is over the newest values of the answers of the last seconds,
each logged value once. What was not logged in that time stands alone, with its age.

An answer stands for as many records as its source has made since the one before: answers come by the
clock, and slow iterations would count for more than they are among all.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unilab_schema.identity import SourceKey
from unilab_schema.rank_values import RankRow, RankSpread
from unilab_schema.requests import RankValues
from unilab_sidecar.means import mean

MEAN_S = 10
"""Twice a second is asked for a few ranks: enough answers that a mean means something."""
_SAME_S = 0.005
"""What was logged at one time is not told to the microsecond of sources on other machines."""
_OVER = frozenset({"lost", "finished"})

Float64s = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class MeantValues(NamedTuple):
    """A row per source and a column per tag of an answer. ``values``: means; ``ages_s``: since the
    newest value, NaN where the source has none. ``samples``: the most values of a mean, 0 where
    nothing was logged in the last seconds."""

    values: Float64s
    ages_s: Float64s
    samples: int


class _Answer(NamedTuple):
    """``stamps_s``: when each value was logged, on the aggregator's clock. ``is_new``: which
    values the answer before did not have. ``cursors``: of each row the number of its newest record;
    ``weights``: how many it has made since the answer before, NaN where nobody knows."""

    mono_ns: int
    keys: tuple[SourceKey, ...]
    tags: tuple[str, ...]
    values: Float64s
    stamps_s: Float64s
    is_new: Bools
    cursors: Float64s
    weights: Float64s


class RankMeans:
    """One owner, no locks; memory is bounded by the answers of the last seconds."""

    def __init__(self) -> None:
        self._seen: deque[_Answer] = deque()

    def clear(self) -> None:
        """Another run or attempt, with which nothing is to be mixed."""
        self._seen.clear()

    def add(self, reply: RankValues) -> MeantValues:
        """The answer's sources and tags, with what was known of them lately."""
        if self._seen and reply.mono_ns < self._seen[-1].mono_ns:
            self._seen.clear()
        shape = len(reply.rows), len(reply.tags)
        values = _block([row.values for row in reply.rows], shape)
        ages_s = _block([row.ages_s for row in reply.rows], shape)
        now_s = reply.mono_ns / 1e9
        stamps_s = now_s - ages_s
        keys = tuple(row.key for row in reply.rows)
        is_new = ~np.isnan(ages_s)
        cursors = np.array([row.cursor for row in reply.rows], dtype=np.float64)
        weights = np.full(len(keys), np.nan)
        newest = _Answer(
            reply.mono_ns, keys, reply.tags, values, stamps_s, is_new, cursors, weights
        )
        if self._seen:
            before = _beside(self._seen[-1], newest)
            is_same = np.abs(before.stamps_s - stamps_s) < _SAME_S
            is_same &= (before.values == values) | (np.isnan(before.values) & np.isnan(values))
            # Of another process in its place the numbers begin anew.
            weights = np.maximum(cursors - before.cursors, 1.0)
            newest = newest._replace(is_new=is_new & ~is_same, weights=weights)
        self._seen.append(newest)
        while reply.mono_ns - self._seen[0].mono_ns > MEAN_S * 10**9:
            self._seen.popleft()
        return _meant([_beside(one, newest) for one in self._seen], newest, ages_s, now_s)


def spreads_of(reply: RankValues, meant: MeantValues) -> dict[str, RankSpread]:
    """Each tag over the answer's sources, as the aggregator has it over their newest values: of
    each role those count that are at work, while somebody is; then all that were not lost."""
    counting = _counting(reply.rows)
    numbers: list[list[float]] = np.transpose(meant.values).tolist()
    ages: list[list[float]] = np.transpose(meant.ages_s).tolist()
    found: dict[str, RankSpread] = {}
    for tag, values, ages_s in zip(reply.tags, numbers, ages, strict=True):
        told = [
            (value, row.key)
            for value, age_s, row, counts in zip(values, ages_s, reply.rows, counting, strict=True)
            if counts and not math.isnan(age_s)
        ]
        found[tag] = spread_of(told)
    return found


def spread_of(told: Sequence[tuple[float, SourceKey]]) -> RankSpread:
    """Over sources, of which each has a value."""
    finite = [(value, key) for value, key in told if math.isfinite(value)]
    if not finite:
        return RankSpread(0, len(told))
    low = min(finite, key=lambda one: one[0])
    high = max(finite, key=lambda one: one[0])
    mean_of = mean([value for value, _ in finite])
    others = len(told) - len(finite)
    return RankSpread(len(finite), others, low[0], mean_of, high[0], low[1], high[1])


def _counting(rows: Sequence[RankRow]) -> list[bool]:
    at_work = {row.key.role for row in rows if row.state not in _OVER}
    return [
        row.state not in _OVER if row.key.role in at_work else row.state != "lost" for row in rows
    ]


def _block(packed: Sequence[bytes], shape: tuple[int, int]) -> Float64s:
    told = np.frombuffer(b"".join(packed), dtype="<f8").astype(np.float64)
    return np.reshape(told, shape)


def _beside(one: _Answer, newest: _Answer) -> _Answer:
    """An answer with the rows and columns of the newest one; of what it lacks nothing is new."""
    if one.keys == newest.keys and one.tags == newest.tags:
        return one
    rows, their_rows = _places(newest.keys, one.keys)
    columns, their_columns = _places(newest.tags, one.tags)
    into, out_of = np.ix_(rows, columns), np.ix_(their_rows, their_columns)
    shape = len(newest.keys), len(newest.tags)
    values, stamps_s = np.full(shape, np.nan), np.full(shape, np.nan)
    is_new = np.zeros(shape, dtype=np.bool_)
    cursors, weights = np.full(len(newest.keys), np.nan), np.full(len(newest.keys), np.nan)
    cursors[rows], weights[rows] = one.cursors[their_rows], one.weights[their_rows]
    values[into] = one.values[out_of]
    stamps_s[into] = one.stamps_s[out_of]
    is_new[into] = one.is_new[out_of]
    return _Answer(
        one.mono_ns, newest.keys, newest.tags, values, stamps_s, is_new, cursors, weights
    )


def _places(
    wanted: Sequence[SourceKey] | Sequence[str], there: Sequence[SourceKey] | Sequence[str]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Where what both have stands in each."""
    at = {name: place for place, name in enumerate(there)}
    both = [(place, at[name]) for place, name in enumerate(wanted) if name in at]
    return (
        np.array([place for place, _ in both], dtype=np.intp),
        np.array([place for _, place in both], dtype=np.intp),
    )


def _meant(seen: Sequence[_Answer], newest: _Answer, ages_s: Float64s, now_s: float) -> MeantValues:
    counted = [one.is_new & (now_s - one.stamps_s <= MEAN_S) for one in seen]
    counts = np.sum(counted, axis=0, dtype=np.int64)
    shares = _shares([one.weights for one in seen], counted)
    total = np.zeros(newest.values.shape)
    low, high = np.full(total.shape, np.inf), np.full(total.shape, -np.inf)
    # What is no number makes the mean none: it is not hidden in one.
    with np.errstate(invalid="ignore", over="ignore"):
        for one, counts_here, share in zip(seen, counted, shares, strict=True):
            # Divided before they are added: the sum of large values may have no end.
            total += np.where(counts_here, one.values * share, 0.0)
            low = np.where(counts_here, np.minimum(low, one.values), low)
            high = np.where(counts_here, np.maximum(high, one.values), high)
        # Equal values have themselves as their mean, to the last bit.
        meant = np.minimum(np.maximum(total, low), high)
    values = np.where(counts > 0, meant, newest.values)
    return MeantValues(values, ages_s, int(counts.max()) if counts.size else 0)


def _shares(weights: Sequence[Float64s], counted: Sequence[Bools]) -> list[Float64s]:
    """What part of each mean each answer is. The first one of a source stands for as many records
    as the next."""
    known = list(weights)
    for place in range(len(known) - 2, -1, -1):
        known[place] = np.where(np.isnan(known[place]), known[place + 1], known[place])
    known = [np.where(np.isnan(one), 1.0, one)[:, None] for one in known]
    parts = [np.where(counts, one, 0.0) for one, counts in zip(known, counted, strict=True)]
    whole = np.sum(parts, axis=0)
    return [part / np.maximum(whole, 1.0) for part in parts]
