"""A part of the history's entries: of some kinds, or what they say of some tags. Pure.

One rule for the aggregator and for viewers of a run that nobody is at work on: both give the same
answer.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from unilab_schema.codec import RecordKind
from unilab_schema.updates import HistoryEntry, PointsUpdate, Supplement, Update

_MOST_LAYOUTS = 64
_OF_TAGS = frozenset(
    [
        RecordKind.UPDATE,
        RecordKind.SUPPLEMENT,
        RecordKind.POINTS_UPDATE,
        RecordKind.ATTEMPT_OPENED,
        RecordKind.RUN_ENDED,
    ]
)


class _Found(NamedTuple):
    places: npt.NDArray[np.intp]
    tags: tuple[str, ...]


class ChosenRecords:
    """``tags``: updates, supplements and points hold only these, and what holds none is left out,
    as events and blobs are. ``kinds``: only records of these. Empty: all."""

    def __init__(self, tags: tuple[str, ...], kinds: tuple[int, ...]) -> None:
        self._tags = frozenset(tags)
        self._kinds = frozenset(kinds)
        self._found: dict[tuple[str, ...], _Found] = {}

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return not self._tags and not self._kinds

    def wants(self, kind: int) -> bool:
        """Whether a record of this kind may be a part of it."""
        return (not self._kinds or kind in self._kinds) and (not self._tags or kind in _OF_TAGS)

    def cut(
        self, entry: HistoryEntry, tags: tuple[str, ...]
    ) -> tuple[HistoryEntry, tuple[str, ...]] | None:
        """What is wanted of an entry whose kind is, and its tags; ``None`` if that is nothing."""
        if not self._tags:
            return entry, tags
        if isinstance(entry, PointsUpdate):
            points = tuple(point for point in entry.frame.points if point.tag in self._tags)
            if not points:
                return None
            frame = msgspec.structs.replace(entry.frame, points=points)
            return msgspec.structs.replace(entry, frame=frame), tags
        if isinstance(entry, Update | Supplement):
            found = self._of(tags)
            if not found.tags:
                return None
            values = np.frombuffer(entry.values, dtype="<f8")[found.places].tobytes()
            return msgspec.structs.replace(entry, values=values), found.tags
        return entry, tags

    def _of(self, tags: tuple[str, ...]) -> _Found:
        known = self._found.get(tags)
        if known is None:
            if len(self._found) >= _MOST_LAYOUTS:
                self._found.clear()
            places = [at for at, tag in enumerate(tags) if tag in self._tags]
            kept = tuple(tags[at] for at in places)
            known = self._found[tags] = _Found(np.array(places, dtype=np.intp), kept)
        return known
