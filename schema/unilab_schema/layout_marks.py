"""How a subscriber says which layouts it has, so that they are not sent again. Pure."""

from __future__ import annotations

import hashlib

import msgspec

MARK_BYTES = 8
MOST_MARKS = 64
"""Of one request that are heeded."""


def mark_of(layout: int, tags: tuple[str, ...]) -> bytes:
    """Of a number with its tags: another segment may give the number to others."""
    return hashlib.sha256(msgspec.msgpack.encode([layout, tags])).digest()[:MARK_BYTES]


class LayoutMarks:
    """Those of layouts that come again and again. One owner, no locks."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[tuple[str, ...], bytes]] = {}

    def of(self, layout: int, tags: tuple[str, ...]) -> bytes:
        """As :func:`mark_of`; thousands of tags are gone through once."""
        found = self._found.get(layout)
        if found is not None and (found[0] is tags or found[0] == tags):
            return found[1]
        mark = mark_of(layout, tags)
        if len(self._found) >= MOST_MARKS:
            self._found.clear()
        self._found[layout] = tags, mark
        return mark
