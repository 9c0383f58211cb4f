"""What is remembered of sealed iterations: newest values, first non-finite ones. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from unilab_metrics.aggregate.folding.reduction import Reduced, Supplier
from unilab_metrics.aggregate.folding.run_data import NonFinite
from unilab_schema.known_names import MEAN_REWARD, NAMES

if TYPE_CHECKING:
    from unilab_metrics.aggregate.folding.state import AggregatorState

MAX_REMEMBERED_ITERATIONS = 16_384
"""Sealed iterations whose tags are remembered; values for older ones are only counted. A host
that the network cuts off hands over what it logged meanwhile when it is back."""
MAX_NONFINITE_TAGS = 4096
"""Tags whose first non-finite value is remembered."""


def remember_layout(state: AggregatorState, iteration: int, layout: int) -> None:
    """The iteration was sealed with these tags, so that a late value's news can be told."""
    sealed_tags = state.data.sealed_tags
    sealed_tags[iteration] = [layout]
    while len(sealed_tags) > MAX_REMEMBERED_ITERATIONS:
        del sealed_tags[next(iter(sealed_tags))]


def missed_iteration(state: AggregatorState, iteration: int) -> None:
    """Higher ones may have been sealed before anybody had this one."""
    data = state.data
    if iteration not in data.sealed_tags:
        data.sealed_tags[iteration] = []
        # In ascending order, so that the lowest is forgotten first.
        kept = sorted(data.sealed_tags.items())[-MAX_REMEMBERED_ITERATIONS:]
        data.sealed_tags = dict(kept)


def forgotten_through(sealed_tags: dict[int, list[int]]) -> float:
    """Up to which iteration it is not known any more what was sealed."""
    if len(sealed_tags) < MAX_REMEMBERED_ITERATIONS:
        return -math.inf
    # Sealed in ascending order, and kept so.
    return next(iter(sealed_tags))


def tags_of_sealed(state: AggregatorState, iteration: int) -> set[str] | None:
    """What a sealed iteration has, ``None`` if that is forgotten."""
    layouts = state.data.sealed_tags.get(iteration)
    if layouts is None:
        return None
    had: set[str] = set()
    for layout in layouts:
        tags = state.layouts.tags(layout)
        if tags is None:
            return None
        had.update(tags)
    return had


def remember_latest(state: AggregatorState, reduced: Reduced, sequence: int) -> None:
    """The newest value of each tag, and the best reward."""
    state.grow_latest(len(state.columns.tags))
    state.latest_values[reduced.columns] = reduced.values
    state.latest_updates[reduced.columns] = sequence
    tag, data = reward_tag(state), state.data
    reward = state.latest_value(tag)
    if reward is not None and math.isfinite(reward):
        best = data.best_mean_reward if tag == data.best_reward_of else None
        data.best_mean_reward = reward if best is None else max(best, reward)
        data.best_reward_of = tag


def reward_tag(state: AggregatorState) -> str:
    """What means the reward in this run: its own name for it, else the first of those that libraries
    use, as far as tags have come."""
    own = state.data.run.reward_tag
    if own:
        return own
    known = (tag for tag in NAMES["reward"] if state.columns.known(tag) is not None)
    return next(known, MEAN_REWARD)


def remember_nonfinite(
    state: AggregatorState, reduced: Reduced, suppliers: list[Supplier], iteration: int
) -> None:
    """Where a tag first became NaN or infinite."""
    known = state.data.first_nonfinite
    for position in np.flatnonzero(~np.isfinite(reduced.values)).tolist():
        column = int(reduced.columns[position])
        tag = state.columns.tags[column]
        if tag in known or len(known) >= MAX_NONFINITE_TAGS:
            continue
        rank = -1
        for supplier in suppliers:
            at = np.flatnonzero(supplier.columns == column)
            if len(at) and not np.isfinite(supplier.totals[at[0]]):
                rank = supplier.rank
                break
        known[tag] = NonFinite(iteration, rank)
