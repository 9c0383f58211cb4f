"""What sealing needs to know of a key set, looked up once and not for each frame. Pure."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unilab_metrics.aggregate.folding.reduction import Columns, TagColumns
from unilab_metrics.aggregate.folding.sources import MAX_KEY_SETS, KeySets
from unilab_schema.timing import ITERATION_WALL


class KeySetColumns(NamedTuple):
    """``columns``: of its named tags. ``has_wall``: whether its source measured its iteration.
    ``named``: which of its values count, ``None`` for all; an empty name has no column."""

    columns: Columns
    has_wall: bool
    named: NDArray[np.bool_] | None


class ColumnsOfKeySets:
    """Owned by the aggregator's only thread."""

    def __init__(self, key_sets: KeySets, columns: TagColumns) -> None:
        self._key_sets = key_sets
        self._columns = columns
        self._known: dict[int, KeySetColumns] = {}

    def of(self, key_set: int) -> KeySetColumns:
        """Of a key set that something in the state refers to; its number never means another."""
        known = self._known.get(key_set)
        if known is None:
            tags = self._key_sets.tags(key_set)
            columns = self._columns.columns(tags)
            named = None if len(columns) == len(tags) else np.array([bool(tag) for tag in tags])
            known = KeySetColumns(columns, ITERATION_WALL in tags, named)
            if len(self._known) >= MAX_KEY_SETS:
                self._known.clear()
            self._known[key_set] = known
        return known
