"""The newest value of every tag that the run has shown, with its age. Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from itertools import repeat
from operator import attrgetter
from typing import NamedTuple

from unilab_schema.requests import Snapshot
from unilab_sidecar.values.of_tags import MOST_KEY_SETS
from unilab_sidecar.values.window import Values


class Newest(NamedTuple):
    """``update``: the update sequence that carried the value; ``mono_ns``: when that was
    sealed, ``None`` if this viewer has not seen the update itself."""

    value: float
    update: int
    mono_ns: int | None


class _Pending(NamedTuple):
    update: int
    mono_ns: int
    tags: tuple[str, ...]
    values: Values


class NewestValues:
    """Folds updates and one snapshot, in any order: the higher update sequence wins."""

    def __init__(self) -> None:
        self._values: dict[str, Newest] = {}
        self._pending: dict[int, _Pending] = {}

    def add(self, update: int, mono_ns: int, tags: tuple[str, ...], values: Values) -> None:
        """Takes the values of an update or supplement."""
        # Only the last update of each key set can still be the newest one. A set of thousands of
        # tags is known by its number: it is the very same tuple as a rule.
        self._pending[id(tags)] = _Pending(update, mono_ns, tags, values)
        if len(self._pending) > MOST_KEY_SETS:
            self._fold_pending({})

    def add_snapshot(self, snapshot: Snapshot) -> None:
        """Takes what the aggregator knew when this viewer joined."""
        count = len(snapshot.tags)
        values = struct.unpack(f"<{count}d", snapshot.values)
        updates = struct.unpack(f"<{count}q", snapshot.updates)
        self._fold(zip(snapshot.tags, values, updates, strict=True), None)

    def all(self) -> dict[str, Newest]:
        """Tag to newest value; the caller must not change it."""
        self._fold_pending({})
        return self._values

    def beside(self, known: Mapping[str, float]) -> dict[str, Newest]:
        """The newest values of the tags that are not in ``known``."""
        # Where all are known there is nothing to look for, in thousands of values each time.
        self._fold_pending(known)
        missing = self._values.keys() - known.keys()
        return {tag: self._values[tag] for tag in missing}

    def _fold_pending(self, known: Mapping[str, float]) -> None:
        # The newest first: most of thousands of tags are then known from there.
        for one in sorted(self._pending.values(), key=attrgetter("update"), reverse=True):
            if known and all(map(known.__contains__, one.tags)):
                continue
            of_all = repeat(one.update, len(one.tags))
            self._fold(zip(one.tags, one.values.tolist(), of_all, strict=True), one.mono_ns)
            del self._pending[id(one.tags)]

    def _fold(self, values: Iterable[tuple[str, float, int]], mono_ns: int | None) -> None:
        for tag, value, update in values:
            known = self._values.get(tag)
            if (
                known is None
                or update > known.update
                or (update == known.update and known.mono_ns is None)
            ):
                self._values[tag] = Newest(value, update, mono_ns)
