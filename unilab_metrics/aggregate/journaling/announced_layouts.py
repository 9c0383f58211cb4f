"""Which layouts the present history segment has announced, and which a new one must. Pure.

Each segment can be read alone: a layout comes before the first update that uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from unilab_metrics.storage.records import encode_record
from unilab_schema.codec import RecordKind, encode_payload
from unilab_schema.updates import UpdateLayout

MAX_ANNOUNCED = 2048
"""Layouts of the present history segment that are remembered."""


class AnnouncedLayouts:
    """``used``: layouts of what is not written yet."""

    def __init__(self, in_memory: Callable[[], set[int]]) -> None:
        """``in_memory``: layouts of written entries that a new segment would repeat."""
        self.used: set[int] = set()
        self._in_memory = in_memory
        self._known: dict[int, tuple[str, ...]] = {}
        self._most = MAX_ANNOUNCED

    def use(self, layout: int, tags: tuple[str, ...]) -> bytes:
        """An update needs it: the record that must come before it, empty if that has come."""
        self.used.add(layout)
        if layout in self._known:
            return b""
        if len(self._known) >= self._most:
            # One may be announced twice in a segment, but not all can be remembered.
            self._known = self.needed()
            self._most = max(MAX_ANNOUNCED, 2 * len(self._known))
        self._known[layout] = tags
        return _record(layout, tags)

    def needed(self) -> dict[int, tuple[str, ...]]:
        """The layouts that a new segment begins with."""
        needed = self._in_memory() | self.used
        return {layout: tags for layout, tags in self._known.items() if layout in needed}

    def begin(self, needed: Mapping[int, tuple[str, ...]]) -> None:
        """A new segment has begun with these."""
        self._known = dict(needed)


def layout_records(layouts: Mapping[int, tuple[str, ...]]) -> list[bytes]:
    """As they are in a segment."""
    return [_record(layout, tags) for layout, tags in layouts.items()]


def _record(layout: int, tags: tuple[str, ...]) -> bytes:
    payload = encode_payload(UpdateLayout(layout, tags))
    return encode_record(RecordKind.UPDATE_LAYOUT, 0, payload)
