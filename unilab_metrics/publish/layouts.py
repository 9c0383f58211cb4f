"""Key sets and the frames that carry their values: layouts, splitting, tag numbers.

A key set is announced once as a layout; later frames carry its number only. More than 4,096
tags are split over several frames, a large layout is announced in parts, and from the 65th
layout on frames carry a number per tag instead.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from unilab_schema.codec import MAX_FRAME_TAGS, MAX_LAYOUTS
from unilab_schema.frames import Layout, TagNames

MAX_TAGS = 100_000
"""Names that one source may announce; the aggregator refuses a source with more."""
_PART_BYTES = 128 * 1024
_REMEMBERED = 1024

Announce = Callable[[msgspec.Struct], bool]
"""Append a Layout or TagNames record; false if it was refused."""


class Part(NamedTuple):
    """What one frame carries: the values ``start..stop`` of the call, in its order.

    ``layout`` is its number, or -1 for a sparse frame with the packed tag ``numbers``.
    """

    start: int
    stop: int
    layout: int
    numbers: bytes
    pack: Callable[..., bytes]


class KeySets:
    """The key sets of one source, for any thread. A signal handler that comes with a new key
    set in the middle of the announcement of another one is refused."""

    def __init__(self, announce: Announce) -> None:
        self._announce = announce
        self._known: dict[tuple[str, ...], tuple[Part, ...]] = {}
        self._layouts: dict[tuple[str, ...], int] = {}
        self._tag_numbers: dict[str, int] = {}
        self._lock = threading.Lock()
        self._announcing: set[int] = set()
        self._announced: set[int] = set()

    def parts(self, tags: tuple[str, ...]) -> tuple[Part, ...] | None:
        """The frames for values of ``tags``, which are distinct and clean.

        Announces what the aggregator does not know yet; ``None`` when that was refused, and
        then the next call tries again. Call :meth:`nameless` first.
        """
        known = self._known.get(tags)
        if known is not None:
            return known
        me = threading.get_ident()
        if me in self._announcing:
            return None
        try:
            self._announcing.add(me)
            with self._lock:
                return self._make(tags)
        finally:
            self._announcing.discard(me)

    @property
    def is_announcing(self) -> bool:
        """Whether this thread is in the middle of an announcement, which a call interrupts."""
        return threading.get_ident() in self._announcing

    def nameless(self, tags: Sequence[str]) -> set[str]:
        """The tags of a new key set for which there are no names left."""
        room = MAX_TAGS - len(self._tag_numbers)
        if len(tags) <= room or len(self._layouts) < MAX_LAYOUTS:
            return set()
        unknown = [tag for tag in tags if tag not in self._tag_numbers]
        return set(unknown[room:])

    def _make(self, tags: tuple[str, ...]) -> tuple[Part, ...] | None:
        made: list[Part] = []
        for start in range(0, max(len(tags), 1), MAX_FRAME_TAGS):
            part = self._part(tags[start : start + MAX_FRAME_TAGS], start)
            if part is None:
                return None
            made.append(part)
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[tags] = tuple(made)
        return self._known[tags]

    def _part(self, tags: tuple[str, ...], start: int) -> Part | None:
        stop = start + len(tags)
        pack = struct.Struct(f"<{len(tags)}d").pack
        number = self._layout(tags)
        if number is None:
            return None
        if number < MAX_LAYOUTS:
            return Part(start, stop, number, b"", pack)
        numbers = self._numbers(tags)
        if numbers is None:
            return None
        return Part(start, stop, -1, struct.pack(f"<{len(numbers)}I", *numbers), pack)

    def _layout(self, tags: tuple[str, ...]) -> int | None:
        number = self._layouts.get(tags)
        if number is None:
            if len(self._layouts) >= MAX_LAYOUTS:
                return MAX_LAYOUTS
            # Kept before it is announced: a refused announcement must not use up a number.
            number = self._layouts[tags] = len(self._layouts)
        if number not in self._announced:
            pieces = list(_pieces(tags)) or [()]
            for part, piece in enumerate(pieces):
                if not self._announce(Layout(number, piece, part, len(pieces))):
                    return None
            self._announced.add(number)
        return number

    def _numbers(self, tags: tuple[str, ...]) -> list[int] | None:
        known = self._tag_numbers
        fresh = tuple(tag for tag in tags if tag not in known)
        first = len(known)
        for piece in _pieces(fresh):
            if not self._announce(TagNames(first, piece)):
                return None
            known.update(zip(piece, range(first, first + len(piece)), strict=True))
            first += len(piece)
        return [known[tag] for tag in tags]


def _pieces(tags: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """``tags`` in runs whose names fit one record."""
    start = size = 0
    for at, tag in enumerate(tags):
        length = len(tag.encode()) + 5
        if size + length > _PART_BYTES:
            yield tags[start:at]
            start, size = at, 0
        size += length
    if start < len(tags):
        yield tags[start:]
