"""A course as a line of dots over a given width, without axes. Pure, numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unilab_sidecar.charting.axes import Scale
from unilab_sidecar.charting.block_charts import columns
from unilab_sidecar.charting.canvas import Canvas, dot_rows
from unilab_sidecar.charting.drawing import connected
from unilab_sidecar.drawing.text import Block, Style
from unilab_sidecar.values.means import are_one

_MIDDLE = 0.55
"""Of two rows that are as near the upper one has it: there the label stands."""


def curve(
    values: Sequence[float],
    cells: int,
    rows: int,
    *,
    flat: Style = "accent",
    scale: Scale | None = None,
) -> Block:
    """From the oldest to the newest of at least one finite value, over the whole width and, without
    a ``scale``, height. A flat one, in the style ``flat``, then lies in the middle: it is neither
    at its best nor at its worst."""
    low, high = min(values), max(values)
    canvas = Canvas(cells, rows)
    shown = np.array(columns(values, canvas.dots_across))
    # Halves, because the range of very large values need not be a number.
    reach = high / 2 - low / 2
    is_flat = are_one(low, high)
    if scale is not None:
        shares = scale.fraction(shown)
    else:
        shares = shown * 0 + _MIDDLE if is_flat else (shown / 2 - low / 2) / reach
    places = np.linspace(0, len(shown) - 1, canvas.dots_across)
    shares = np.interp(places, np.arange(len(shown)), shares)
    is_there = np.isfinite(shares)
    top, bottom = connected(dot_rows(shares, canvas.dots_down), is_there)
    canvas.line(top, bottom, is_there, flat if is_flat else "accent")
    return canvas.lines()
