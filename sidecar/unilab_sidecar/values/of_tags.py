"""What has been worked out about a key set, found by which tuple of tags it is. Pure.

A run has a few key sets, each of which comes thousands of times as the very same tuple, also turn by
turn. To look a tuple of thousands of tags up by what is in it takes longer than what is to be done
with its values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

MOST_KEY_SETS = 32

T = TypeVar("T")


class OfTags(Generic[T]):
    """``make`` is asked once for each tuple, and again when it has been forgotten. One owner, no
    locks; memory is bounded."""

    def __init__(self, make: Callable[[tuple[str, ...]], T]) -> None:
        self._make = make
        self._made: dict[int, tuple[tuple[str, ...], T]] = {}

    def of(self, tags: tuple[str, ...]) -> T:
        """What was made of these tags."""
        known = self._made.get(id(tags))
        if known is None or known[0] is not tags:
            if len(self._made) >= MOST_KEY_SETS:
                self._made.clear()
            # The tuple is kept, so that its number is nobody else's.
            known = self._made[id(tags)] = tags, self._make(tags)
        return known[1]

    def forget(self) -> None:
        """All of it may be otherwise now."""
        self._made.clear()
