"""The layouts that a subscriber has been told, and how it says so. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from unilab_metrics.subscribe.history_record import put_layout
from unilab_schema.layout_marks import MOST_MARKS, LayoutMarks
from unilab_schema.updates import UpdateLayout


class KnownLayouts:
    """One owner, no locks. ``tags``: by the layout's number, as it was told last. ``replaced``: how
    often a number got other tags: what was asked for before then must not be read with these."""

    def __init__(self) -> None:
        self.tags: dict[int, tuple[str, ...]] = {}
        self.replaced = 0
        self._marks = LayoutMarks()

    def note(self, layouts: Iterable[UpdateLayout]) -> None:
        """What a reply tells."""
        for one in layouts:
            before = self.tags.get(one.layout)
            put_layout(self.tags, one)
            if before is not None and self.tags[one.layout] is not before:
                self.replaced += 1

    def marks(self) -> tuple[bytes, ...]:
        """What a request says of it: those that came last."""
        newest = list(self.tags.items())[-MOST_MARKS:]
        return tuple(self._marks.of(layout, tags) for layout, tags in newest)

    def forget(self) -> None:
        """Another journal."""
        self.tags.clear()
        self.replaced += 1
