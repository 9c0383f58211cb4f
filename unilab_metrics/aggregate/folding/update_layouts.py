"""The numbers of update layouts: which tags an update carries. Pure.

A run with many optional tags has a new combination nearly every iteration, so only the ones
used last are remembered. A number is never given twice: a combination that comes back after it
was forgotten gets a new one. What old updates refer to stands in their segments.
"""

from __future__ import annotations

from unilab_metrics.aggregate.folding.packed import pack_columns, unpack_columns
from unilab_metrics.aggregate.folding.reduction import Columns, TagColumns

MAX_REMEMBERED = 2048
MAX_REMEMBERED_TAGS = 250_000
"""Tags of all remembered layouts together."""


class UpdateLayouts:
    """Owned by the aggregator's only thread."""

    def __init__(self, packed: dict[int, bytes], next_number: int, columns: TagColumns) -> None:
        """``packed`` and ``next_number``: as of :meth:`packed` and :attr:`next_number`."""
        self._columns = columns
        self.next_number = next_number
        self._tags = {n: columns.names(unpack_columns(data)) for n, data in packed.items()}
        self._numbers = {tags: number for number, tags in self._tags.items()}
        self._tag_count = sum(map(len, self._numbers))

    def number(self, columns: Columns) -> tuple[int, tuple[str, ...]]:
        """The number of a layout, a new one if it is not remembered, and its tags."""
        tags = self._columns.names(columns)
        number = self._numbers.get(tags)
        if number is None:
            number = self._numbers[tags] = self.next_number
            self.next_number += 1
            self._tags[number] = tags
            self._tag_count += len(tags)
            self._forget_oldest()
        elif number != next(reversed(self._tags)):
            self._tags[number] = self._tags.pop(number)
        return number, tags

    def tags(self, number: int) -> tuple[str, ...] | None:
        """The tags of a layout, ``None`` if it is forgotten."""
        return self._tags.get(number)

    def packed(self) -> dict[int, bytes]:
        """For a snapshot, in the order of use."""
        return {
            number: pack_columns(self._columns.columns(tags)) for number, tags in self._tags.items()
        }

    def _forget_oldest(self) -> None:
        while len(self._tags) > 1 and (
            len(self._tags) > MAX_REMEMBERED or self._tag_count > MAX_REMEMBERED_TAGS
        ):
            tags = self._tags.pop(next(iter(self._tags)))
            del self._numbers[tags]
            self._tag_count -= len(tags)
