"""Each source's values as means over the last two seconds of its own frames. Pure.

The window ends at the newest frame of the source, on the source's clock, so it always holds that one,
and neither a burst after a stall nor the way over the network changes what is in it. A value that came
in none of its frames stands alone: the newest one, with its age.

Frames are decoded here, when somebody asks, and those of sources that share a key set together: 64
ranks cost hardly more than one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unilab_metrics.aggregate.folding.newest_frames import ValueFrame
from unilab_metrics.aggregate.folding.packed import Float64s, Int64s, pack_values, unpack_values
from unilab_metrics.aggregate.folding.recent_frames import WINDOW_NS
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.folding.state import AggregatorState

NEVER = np.iinfo(np.int64).min
"""The stamp of what a source has not."""


class MeantValues(NamedTuple):
    """A row per source and a column per tag. ``values``: means, NaN where there is none; ``stamps``:
    of the newest frame with the tag, monotonic ns on the source's clock, else ``NEVER``.

    Per source: ``newest``, the stamp of its newest frame, and ``samples``, the most frames that a
    mean of it is over."""

    values: Float64s
    stamps: Int64s
    newest: Int64s
    samples: Int64s


class _Frames(NamedTuple):
    """Of one source and key set, oldest first: all of its window, or but the newest one, which was
    there before anybody asked."""

    row: int
    frames: Sequence[ValueFrame]
    is_window: bool


class _Part(NamedTuple):
    """Frames of one key set, those of a source one after the other. ``starts``: where each source's
    begin; ``rows`` and ``places``: of the sources, and of the tags that are asked for, in the table.
    ``values`` and ``is_there``: a row per frame and a column per asked tag. ``is_window``: per row of
    ``rows``."""

    rows: NDArray[np.intp]
    places: NDArray[np.intp]
    starts: NDArray[np.intp]
    stamps: Int64s
    values: Float64s
    is_there: NDArray[np.bool_]
    is_window: NDArray[np.bool_]


def meant_values(
    state: AggregatorState, sources: Sequence[SourceState], tags: tuple[str, ...]
) -> MeantValues:
    """The table of ``sources`` and ``tags``; over newest values alone where no others are kept yet."""
    shape = len(sources), len(tags)
    groups = _groups(state, sources)
    newest: Int64s = np.full(len(sources), NEVER)
    for members in groups.values():
        for one in members:
            newest[one.row] = max(newest[one.row], one.frames[-1].mono_ns)
    places = _places(state, tags)
    parts = [
        part
        for key_set, members in groups.items()
        if (part := _part(state, key_set, members, places)) is not None
    ]
    values: Float64s = np.full(shape, np.nan)
    stamps: Int64s = np.full(shape, NEVER)
    counts: Int64s = np.zeros(shape, dtype=np.int64)
    counted: list[NDArray[np.bool_]] = []
    for part in parts:
        _take_newest(part, values, stamps)
        begins = (newest[part.rows] - WINDOW_NS).repeat(_lengths(part))
        is_window = part.is_window.repeat(_lengths(part)) & (part.stamps >= begins)
        is_in = part.is_there & is_window[:, None]
        counted.append(is_in)
        counts[np.ix_(part.rows, part.places)] += np.add.reduceat(
            is_in, part.starts, dtype=np.int64
        )
    means = _means(parts, counted, counts)
    samples = np.maximum(counts, stamps != NEVER).max(axis=1, initial=0)
    return MeantValues(np.where(counts > 1, means, values), stamps, newest, samples)


def _groups(state: AggregatorState, sources: Sequence[SourceState]) -> dict[int, list[_Frames]]:
    """By key set what each source has of it."""
    groups: dict[int, list[_Frames]] = {}
    for row, source in enumerate(sources):
        recent = state.recent_frames.of(source.index)
        for key_set, newest in state.newest_frames.of(source.index).items():
            frames = recent.get(key_set)
            one = _Frames(row, frames or (newest,), frames is not None)
            groups.setdefault(key_set, []).append(one)
    return groups


def _places(state: AggregatorState, tags: tuple[str, ...]) -> NDArray[np.intp]:
    """Of each of the run's columns the place among ``tags``, or -1."""
    places = np.full(len(state.columns.tags), -1, dtype=np.intp)
    for place, tag in enumerate(tags):
        column = state.columns.known(tag)
        if column is not None:
            places[column] = place
    return places


def _part(
    state: AggregatorState, key_set: int, members: list[_Frames], places: NDArray[np.intp]
) -> _Part | None:
    tags = state.newest_frames.tags(key_set)
    named = np.array([place for place, tag in enumerate(tags) if tag], dtype=np.intp)
    asked = places[state.columns.columns(tags)]
    chosen = np.flatnonzero(asked >= 0)
    if not len(chosen):
        return None
    frames = [frame for one in members for frame in one.frames]
    of_frame = named[chosen]
    values = _block([frame.values for frame in frames])[:, of_frame]
    is_there: NDArray[np.bool_] = np.ones(values.shape, dtype=np.bool_)
    if any(frame.weights for frame in frames):
        ones = pack_values(np.ones(len(tags)))
        weights = _block([frame.weights or ones for frame in frames])[:, of_frame]
        is_there = weights != 0
        values = values / np.where(is_there, weights, 1.0)
    return _Part(
        np.array([one.row for one in members], dtype=np.intp),
        asked[chosen],
        np.cumsum([0, *(len(one.frames) for one in members[:-1])], dtype=np.intp),
        np.array([frame.mono_ns for frame in frames], dtype=np.int64),
        values,
        is_there,
        np.array([one.is_window for one in members], dtype=np.bool_),
    )


def _take_newest(part: _Part, values: Float64s, stamps: Int64s) -> None:
    """Into the table what is newer there than what it has."""
    where = np.ix_(part.rows, part.places)
    number = np.arange(len(part.stamps))[:, None]
    last = np.maximum.reduceat(np.where(part.is_there, number, -1), part.starts)
    told = part.stamps[last]
    is_newer = (last >= 0) & (told > stamps[where])
    newest = np.take_along_axis(part.values, last, axis=0)
    values[where] = np.where(is_newer, newest, values[where])
    stamps[where] = np.where(is_newer, told, stamps[where])


def _means(parts: list[_Part], counted: list[NDArray[np.bool_]], counts: Int64s) -> Float64s:
    total: Float64s = np.zeros(counts.shape)
    low, high = np.full(counts.shape, np.inf), np.full(counts.shape, -np.inf)
    # What is no number makes the mean none: it is not hidden in one.
    with np.errstate(invalid="ignore", over="ignore"):
        for part, is_in in zip(parts, counted, strict=True):
            where = np.ix_(part.rows, part.places)
            # Divided before they are added: the sum of large values may have no end.
            shares = np.maximum(counts[where], 1).repeat(_lengths(part), axis=0)
            total[where] += np.add.reduceat(np.where(is_in, part.values / shares, 0.0), part.starts)
            lows = np.minimum.reduceat(np.where(is_in, part.values, np.inf), part.starts)
            highs = np.maximum.reduceat(np.where(is_in, part.values, -np.inf), part.starts)
            low[where], high[where] = np.minimum(low[where], lows), np.maximum(high[where], highs)
        # Equal values have themselves as their mean, to the last bit.
        return np.minimum(np.maximum(total, low), high)


def _lengths(part: _Part) -> NDArray[np.intp]:
    return np.diff(part.starts, append=len(part.stamps))


def _block(packed: list[bytes]) -> Float64s:
    return np.reshape(unpack_values(b"".join(packed)), (len(packed), -1))
