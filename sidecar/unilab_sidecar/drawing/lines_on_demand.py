"""Lines that are drawn when somebody looks at them. Pure.

A run has thousands of tags and a terminal some forty lines: of a long list only what is on the
screen is worth drawing. What draws a line must give the same one each time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

from unilab_sidecar.drawing import text
from unilab_sidecar.drawing.text import Line, Lines
from unilab_sidecar.groups.worked_out import WorkedOut


class LinesOnDemand(WorkedOut[Line]):
    """``count`` lines, of which ``draw`` makes each by its place when it is looked at first."""

    __slots__ = ("_count", "_draw", "_drawn")

    def __init__(self, count: int, draw: Callable[[int], Line]) -> None:
        self._count = max(count, 0)
        self._draw = draw
        self._drawn: dict[int, Line] = {}

    def __len__(self) -> int:
        return self._count

    def one(self, place: int) -> Line:
        """As it was drawn first."""
        drawn = self._drawn.get(place)
        if drawn is None:
            drawn = self._drawn[place] = self._draw(place)
        return drawn

    def some(self, places: range) -> Lines:
        """Drawn no sooner."""
        return LinesOnDemand(len(places), lambda nth: self.one(places[nth]))

    def __repr__(self) -> str:
        return f"LinesOnDemand({self._count} lines, {len(self._drawn)} drawn)"


def joined(*blocks: Lines) -> Lines:
    """The blocks below each other."""
    there = [block for block in blocks if len(block)]
    if all(isinstance(block, list) for block in there):
        return [parts for block in there for parts in block]
    ends = list(accumulate(map(len, there)))

    def draw(place: int) -> Line:
        which = bisect_right(ends, place)
        return there[which][place - (ends[which - 1] if which else 0)]

    return LinesOnDemand(ends[-1], draw)


def each(lines: Lines, change: Callable[[Line], Line]) -> Lines:
    """The lines, each as ``change`` makes it."""
    if isinstance(lines, list):
        return [change(parts) for parts in lines]
    return LinesOnDemand(len(lines), lambda place: change(lines[place]))


def beside(blocks: Sequence[Lines], widths: Sequence[int], gap: int) -> Lines:
    """Blocks as columns of ``widths`` with ``gap`` blank cells between them."""
    height = max(map(len, blocks), default=0)

    def draw(place: int) -> Line:
        return text.row_of(blocks, widths, gap, place)

    if all(isinstance(block, list) for block in blocks):
        return [draw(place) for place in range(height)]
    return LinesOnDemand(height, draw)
