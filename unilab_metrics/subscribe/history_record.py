"""One entry of the history: its bytes to the struct, its tags and its values. Pure."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unilab_metrics.storage.records import Record
from unilab_schema.codec import FrameDecodeError, decode_payload
from unilab_schema.updates import HistoryEntry, Supplement, Update, UpdateLayout


class HistoryRecord(NamedTuple):
    """An entry of the run's history.

    ``sequence``: its update sequence, rising by one. ``tags``: of an ``Update`` or
    ``Supplement``, in the order of its values; empty for other entries.
    """

    sequence: int
    entry: HistoryEntry
    tags: tuple[str, ...]

    def values(self) -> NDArray[np.float64]:
        """The values in the order of ``tags``, read-only; empty for other entries."""
        if isinstance(self.entry, Update | Supplement):
            return np.frombuffer(self.entry.values, dtype="<f8")
        return np.empty(0, dtype=np.float64)


def put_layout(layouts: dict[int, tuple[str, ...]], layout: UpdateLayout) -> None:
    """Notes a layout that is told, often not for the first time. The same tags stay the very same
    tuple, by which whoever has worked something out about thousands of them finds it again."""
    if layouts.get(layout.layout) != layout.tags:
        layouts[layout.layout] = layout.tags


def decode_entry(record: Record, layouts: dict[int, tuple[str, ...]]) -> HistoryRecord | None:
    """A record of the history; a layout is put into ``layouts`` and gives ``None``.

    Raises ``FrameDecodeError``, also for an unknown layout or a wrong number of values.
    """
    entry = decode_payload(record.kind, record.payload)
    if isinstance(entry, UpdateLayout):
        put_layout(layouts, entry)
        return None
    if not isinstance(entry, Update | Supplement):
        return HistoryRecord(record.sequence, entry, ())
    tags = layouts.get(entry.layout)
    if tags is None:
        raise FrameDecodeError("update", f"unknown layout {entry.layout}")
    if len(entry.values) != 8 * len(tags):
        raise FrameDecodeError("update", f"{len(entry.values)} bytes for {len(tags)} tags")
    return HistoryRecord(record.sequence, entry, tags)
