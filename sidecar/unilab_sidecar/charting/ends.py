"""The letters of a chart's curves, where these end. Pure, numpy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from unilab_sidecar.charting.bins import Float64s
from unilab_sidecar.charting.canvas import Canvas
from unilab_sidecar.drawing.text import Block, Line, Segment, line

_BESIDE = ((2, 3), (0, -1, 1, -2, 2))
"""Cells behind a curve's end, and rows below it, where its letter belongs to it."""


class Lettered(NamedTuple):
    """``course``: as ``Columns.line``."""

    letter: Segment
    course: Float64s


def with_ends(
    body: Block, curves: Sequence[Lettered], canvas: Canvas
) -> tuple[Block, dict[int, Segment]]:
    """The canvas with the letters of curves that end in it, where there is a blank, and those of the
    others by row, to stand behind it. Where two end together, the next free row is as good."""
    shown, ends = list(body), dict[int, Segment]()
    for letter, course in curves:
        known = np.flatnonzero(np.isfinite(course))
        if not len(known):
            continue
        wanted = _row_of(float(course[known[-1]]), canvas)
        end = int(known[-1]) // canvas.across
        for cells, rows in product(*_BESIDE):
            row, cell = wanted + rows, end + cells
            if 0 <= row < canvas.rows and _is_blank(shown[row], cell):
                shown[row] = _put_at(shown[row], cell, letter)
                break
        else:
            free = [row for row in range(canvas.rows) if row not in ends]
            if free:
                ends[min(free, key=lambda row: abs(row - wanted))] = letter
    return shown, ends


def _row_of(fraction: float, canvas: Canvas) -> int:
    """The row of cells in which a dot at this height lies."""
    dots = canvas.dots_down - 1
    return round((1 - min(max(fraction, 0.0), 1.0)) * dots) // canvas.down


def _is_blank(parts: Line, cell: int) -> bool:
    """With a blank on both sides of it."""
    text = "".join(part.text for part in parts)
    return 0 < cell < len(text) - 1 and not text[cell - 1 : cell + 2].strip()


def _put_at(parts: Line, cell: int, mark: Segment) -> Line:
    made: list[Segment] = []
    at = 0
    for part in parts:
        before, behind = part.text[: max(cell - at, 0)], part.text[max(cell + 1 - at, 0) :]
        made += [Segment(before, part.style)]
        made += [mark] if at <= cell < at + len(part.text) else []
        made += [Segment(behind, part.style)] if at + len(part.text) > cell else []
        at += len(part.text)
    return line(*made)
