"""A rank's frames of one iteration as one. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unilab_metrics.aggregate.folding.packed import Float64s, pack_values, unpack_values
from unilab_metrics.aggregate.folding.window import Values

if TYPE_CHECKING:
    from unilab_metrics.aggregate.folding.sources import KeySets

MOST_FRAMES = 256
"""Of one rank and iteration, before they are merged: ``more=True`` has no limit of its own."""


def merge_frames(
    key_sets: KeySets, frames: list[Values]
) -> tuple[tuple[str, ...], Float64s, Float64s | None]:
    """Tags, totals and weights (``None``: all 1); of a tag given twice the last one wins."""
    if len(frames) == 1:
        frame = frames[0]
        weights = unpack_values(frame.weights) if frame.weights else None
        return key_sets.tags(frame.key_set), unpack_values(frame.values), weights
    merged: dict[str, tuple[float, float]] = {}
    for frame in frames:
        values: list[float] = unpack_values(frame.values).tolist()
        parts: list[float] = unpack_values(frame.weights).tolist() or [1.0] * len(values)
        tags = key_sets.tags(frame.key_set)
        for tag, total, weight in zip(tags, values, parts, strict=True):
            merged[tag] = (total, weight)
    totals = np.array([total for total, _ in merged.values()])
    weights = np.array([weight for _, weight in merged.values()])
    return tuple(merged), totals, None if (weights == 1.0).all() else weights


def merged_frames(key_sets: KeySets, frames: list[Values]) -> list[Values]:
    """The same in at most two frames."""
    made: list[Values] = []
    for already_reduced in (False, True):
        of_kind = [frame for frame in frames if frame.already_reduced == already_reduced]
        if of_kind:
            tags, totals, weights = merge_frames(key_sets, of_kind)
            packed_weights = b"" if weights is None else pack_values(weights)
            key_set = key_sets.number(tags)
            made.append(Values(key_set, pack_values(totals), packed_weights, already_reduced))
    return made


def give_way(key_sets: KeySets, frames: list[Values]) -> int:
    """The last frame came after its rank was done with the iteration: of a tag given twice the
    earlier ones win. How many of its values that are."""
    newest = frames.pop()
    had: set[str] = set()
    for frame in frames:
        if frame.already_reduced == newest.already_reduced:
            had.update(key_sets.tags(frame.key_set))
    frames.insert(0, newest)
    had.discard("")  # one that the run has no room for
    return sum(tag in had for tag in key_sets.tags(newest.key_set))
