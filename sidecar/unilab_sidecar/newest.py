"""The newest value of every tag that the run has shown, with its age. Pure."""

from __future__ import annotations

import struct
from typing import NamedTuple

from unilab_schema.control import Snapshot
from unilab_sidecar.window import Values


class Newest(NamedTuple):
    """``update``: the update sequence that carried the value; ``mono_ns``: when that was
    sealed, ``None`` if this viewer has not seen the update itself."""

    value: float
    update: int
    mono_ns: int | None


class NewestValues:
    """Folds updates and one snapshot, in any order: the higher update sequence wins."""

    def __init__(self) -> None:
        self._values: dict[str, Newest] = {}
        self._pending: dict[tuple[str, ...], tuple[int, int, Values]] = {}

    def add(self, update: int, mono_ns: int, tags: tuple[str, ...], values: Values) -> None:
        """Takes the values of an update or supplement."""
        # Only the last update of each key set can still be the newest one.
        self._pending[tags] = (update, mono_ns, values)

    def add_snapshot(self, snapshot: Snapshot) -> None:
        """Takes what the aggregator knew when this viewer joined."""
        count = len(snapshot.tags)
        values = struct.unpack(f"<{count}d", snapshot.values)
        updates = struct.unpack(f"<{count}q", snapshot.updates)
        for tag, value, update in zip(snapshot.tags, values, updates, strict=True):
            self._take(tag, Newest(value, update, None))

    def all(self) -> dict[str, Newest]:
        """Tag to newest value; the caller must not change it."""
        for tags, (update, mono_ns, values) in self._pending.items():
            for tag, value in zip(tags, values.tolist(), strict=True):
                self._take(tag, Newest(value, update, mono_ns))
        self._pending.clear()
        return self._values

    def _take(self, tag: str, new: Newest) -> None:
        known = self._values.get(tag)
        if (
            known is None
            or new.update > known.update
            or (new.update == known.update and known.mono_ns is None)
        ):
            self._values[tag] = new
