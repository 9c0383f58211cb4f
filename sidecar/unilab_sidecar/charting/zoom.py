"""A part of the charts' x axis, and where its right end is. Pure."""

from __future__ import annotations

import math
from typing import NamedTuple

from unilab_sidecar.charting.bins import Span


class Zoom(NamedTuple):
    """A window of ``width`` on the x axis. ``high``: its right end, ``None``: it follows the
    newest update, wherever a restart or a longer earlier run puts that. ``is_held``: it stands there
    only while a cursor is in it, which would be left behind."""

    width: float
    high: float | None = None
    is_held: bool = False

    def held(self, high: float) -> Zoom:
        """With a cursor, at a moment at which its right end is ``high``."""
        return Zoom(self.width, high, is_held=True) if self.high is None else self

    def released(self) -> Zoom:
        """Without a cursor."""
        return Zoom(self.width) if self.is_held else self


def end_at(newest: float | None, width: float, whole: Span) -> float:
    """Where a window ends that follows the newest: nothing is before the whole."""
    return whole.high if newest is None else min(max(newest, whole.low + width), whole.high)


def ahead(value: float, width: float) -> float:
    """The right end that a window of a live run has: it goes by steps."""
    if not 0 < width < math.inf:
        return value
    step = 2.0 ** math.floor(math.log2(width)) / 8
    return max(math.ceil(value / step) * step, value)
