"""The values of all tags shortly before a place of a run's past, from its history in brief."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from unilab_metrics.subscribe.past_files import PastFiles
from unilab_schema.control import Epoch
from unilab_schema.requests import Snapshot
from unilab_schema.updates import BLOCK_ENTRIES, BinBlock

_NOBODY = Epoch(b"", 0)


def snapshot_of(blocks: Iterable[BinBlock]) -> Snapshot | None:
    """The last values of one stretch of the history, with its last update sequence; ``None`` without
    any."""
    of_updates = [block for block in blocks if not block.points]
    if not of_updates:
        return None
    last = of_updates[-1].last
    tags = tuple(tag for block in of_updates for tag in block.tags)
    values = b"".join(block.latest for block in of_updates)
    updates = np.full(len(tags), last, dtype="<i8").tobytes()
    return Snapshot(0, _NOBODY, last, tags, values, updates)


def snapshot_before(past: PastFiles, sequence: int) -> Snapshot | None:
    """As of the last whole block up to the update sequence, ``None`` before the first. Raises as
    :meth:`PastFiles.bins`."""
    first = sequence // BLOCK_ENTRIES * BLOCK_ENTRIES + 1 - BLOCK_ENTRIES
    if first < 1:
        return None
    return snapshot_of(one for one in past.bins((), first - 1).blocks if one.first == first)
