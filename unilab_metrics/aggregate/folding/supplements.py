"""What comes for an iteration after it was sealed: the tags that it lacks. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unilab_metrics.aggregate.folding.packed import pack_values
from unilab_metrics.aggregate.folding.pieces import ends_of_pieces
from unilab_metrics.aggregate.folding.reduction import Reduced, Supplier
from unilab_metrics.aggregate.folding.remembering import (
    remember_latest,
    remember_nonfinite,
    tags_of_sealed,
)
from unilab_schema.updates import Supplement

if TYPE_CHECKING:
    from unilab_metrics.aggregate.folding.entries import Seal
    from unilab_metrics.aggregate.folding.state import AggregatorState, Publication

MAX_SINGLE_TAGS = 100
"""Names of this many tags fit one record, however long they are."""


def pieces(state: AggregatorState, reduced: Reduced) -> list[Reduced]:
    """What fits one record each; almost always all of it."""
    if len(reduced.columns) <= MAX_SINGLE_TAGS:
        return [reduced]
    found: list[Reduced] = []
    start = 0
    for end in ends_of_pieces(state.columns.names(reduced.columns)):
        found.append(Reduced(reduced.columns[start:end], reduced.values[start:end]))
        start = end
    return found


def add_missing(
    state: AggregatorState,
    decision: Seal,
    reduced: Reduced,
    suppliers: list[Supplier],
    unix_ns: int,
) -> tuple[list[Publication], int]:
    """Publish those tags that the iteration lacks, and what alerts that gives; and how many values
    were not published."""
    tags = state.columns.names(reduced.columns)
    known = tags_of_sealed(state, decision.iteration)
    had = set(tags) if known is None else known
    keep = np.array([tag not in had for tag in tags], dtype=bool)
    late = len(tags) - int(keep.sum())
    if known is None or not keep.any():
        return [], late
    added = Reduced(reduced.columns[keep], reduced.values[keep])
    remember_nonfinite(state, added, suppliers, decision.iteration)
    published = [supplement(state, decision, unix_ns, piece) for piece in pieces(state, added)]
    at = (decision.iteration, decision.mono_ns, decision.unix_ns)
    return published + state.alerting.take_late(added, suppliers, *at), late


def supplement(state: AggregatorState, decision: Seal, unix_ns: int, added: Reduced) -> Publication:
    """An update of its own, with these tags of a sealed iteration."""
    data = state.data
    layout, tags = state.layouts.number(added.columns)
    data.sealed_tags[decision.iteration].append(layout)
    entry = Supplement(
        data.attempt,
        decision.iteration,
        data.env_steps,
        unix_ns,
        decision.mono_ns,
        data.elapsed_s,
        layout,
        pack_values(added.values),
    )
    published = state.publication(entry, tags)
    remember_latest(state, added, published.sequence)
    return published
