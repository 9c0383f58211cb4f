"""Dots on a grid of cells, and the cells as text. Pure, numpy.

A braille cell has 2 by 4 dots; without Unicode a cell has 1 by 3, drawn as ``'``, ``-``, ``_``
and ``|``. Every cell has one style: that of what was drawn there last.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from unilab_sidecar.charting.bins import Bools, Float64s
from unilab_sidecar.drawing.text import Line, Segment, Style

Ints = npt.NDArray[np.intp]
_BRAILLE = 0x2800
_BRAILLE_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], dtype=np.uint32)
_ASCII_LINE = np.array([ord(c) for c in " '-|_|||"], dtype=np.uint32)
_ASCII_BITS = np.array([[1], [2], [4]], dtype=np.uint32)
_ASCII_FILL = ord(":")
_NEARER = 1e-6
"""Of a dot: between two rows what differs by rounding only must not go to one and to the other."""


class Canvas:
    """``columns`` by ``rows`` cells, blank at first; row 0 is the top."""

    def __init__(self, columns: int, rows: int, *, unicode: bool = True) -> None:
        self.columns, self.rows, self.unicode = columns, rows, unicode
        self.across, self.down = (2, 4) if unicode else (1, 3)
        self.dots_across, self.dots_down = columns * self.across, rows * self.down
        self._line = np.zeros((self.dots_down, self.dots_across), dtype=bool)
        self._fill = np.zeros_like(self._line)
        self._letters = np.zeros((rows, columns), dtype=np.uint32)
        self._style = np.zeros((rows, columns), dtype=np.intp)
        self._styles: list[Style] = ["plain"]
        self._heights = np.arange(self.dots_down)[:, None]

    def band(self, top: Ints, bottom: Ints, wanted: Bools, style: Style, *, sparse: bool) -> None:
        """Per dot column the stretch from ``top`` to ``bottom``: both ends always, so that the
        highest of a million values is there, and every other dot between them (``sparse``: every
        fourth, where bands lie on each other)."""
        inside = (self._heights >= top) & (self._heights <= bottom) & wanted
        is_end = (self._heights == top) | (self._heights == bottom)
        self._put(
            self._fill,
            inside & (_pattern(self.dots_down, self.dots_across, sparse=sparse) | is_end),
            style,
        )

    def line(self, top: Ints, bottom: Ints, wanted: Bools, style: Style, letter: str = "") -> None:
        """Per dot column the stretch from ``top`` to ``bottom``, all of it. ``letter``: what a
        cell shows where there are no braille dots to tell lines apart."""
        dots = (self._heights >= top) & (self._heights <= bottom) & wanted
        if not self.unicode:
            # One character cannot show two lines: the one in front has it.
            taken = self._cells_with(dots)
            self._line &= ~np.repeat(taken, self.down, axis=0)
        cells = self._put(self._line, dots, style)
        self._letters[cells] = ord(letter) if letter else 0

    def _put(self, layer: Bools, dots: Bools, style: Style) -> Bools:
        layer |= dots
        cells = self._cells_with(dots)
        if style not in self._styles:
            self._styles.append(style)
        self._style[cells] = self._styles.index(style)
        return cells

    def _cells_with(self, dots: Bools) -> Bools:
        """Which cells have any of the dots. Slices, because reductions over two and four are
        many times slower."""
        found = dots[:: self.down] | dots[1 :: self.down] | dots[2 :: self.down]
        if self.down > 3:
            found |= dots[3 :: self.down]
        return found if self.across == 1 else found[:, ::2] | found[:, 1::2]

    def _weighed(self, dots: Bools, weights: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        """Per cell the sum of its dots' weights."""
        total = np.zeros((self.rows, self.columns), dtype=np.uint32)
        for row in range(self.down):
            for column in range(self.across):
                total += dots[row :: self.down, column :: self.across] * weights[row, column]
        return total

    def lines(self, *, cursor: int | None = None) -> list[Line]:
        """The canvas as text. ``cursor``: a column of cells that is marked."""
        codes = self._codes()
        styles = self._style
        if cursor is not None and 0 <= cursor < self.columns:
            blank = codes[:, cursor] == ord(" ")
            codes[blank, cursor] = ord("│" if self.unicode else "!")
            if "value" not in self._styles:
                self._styles.append("value")
            styles = np.array(styles)
            styles[:, cursor] = self._styles.index("value")
        # A blank has no style of its own: it goes with what is before it.
        shown = np.where(codes != ord(" "), np.arange(self.columns), 0)
        styles = np.take_along_axis(styles, np.maximum.accumulate(shown, axis=1), axis=1)
        texts = codes.astype("<u4").tobytes().decode("utf-32-le")
        return [
            self._line_of(texts[row * self.columns : (row + 1) * self.columns], styles[row])
            for row in range(self.rows)
        ]

    def _codes(self) -> npt.NDArray[np.uint32]:
        has_line = self._cells_with(self._line)
        if not self.unicode:
            drawn = _ASCII_LINE[self._weighed(self._line, _ASCII_BITS)]
            codes = np.where(self._letters > 0, self._letters, drawn)
            is_band = ~has_line & self._cells_with(self._fill)
            return np.where(is_band, _ASCII_FILL, codes).astype(np.uint32)
        # A line must not drown in its own band.
        fill = np.where(has_line, 0, self._weighed(self._fill, _BRAILLE_BITS))
        bits = self._weighed(self._line, _BRAILLE_BITS) + fill
        return np.where(bits > 0, bits + _BRAILLE, ord(" ")).astype(np.uint32)

    def _line_of(self, text: str, styles: Ints) -> Line:
        changes = np.flatnonzero(styles[1:] != styles[:-1]) + 1
        edges = [0, *changes.tolist(), len(text)]
        return tuple(
            Segment(text[first:last], self._styles[styles[first]])
            for first, last in pairwise(edges)
        )


@lru_cache(maxsize=16)
def _pattern(down: int, across: int, *, sparse: bool) -> Bools:
    """Every other dot, or every fourth."""
    rows, columns = np.arange(down)[:, None], np.arange(across)
    if sparse:
        return (rows % 2 == 0) & ((rows // 2 + columns) % 2 == 0)
    return (rows + columns) % 2 == 0


def dot_rows(fractions: Float64s, dots_down: int) -> Ints:
    """The row of dots for fractions of the height, 1 at the top, of two as near ones the lower; NaN
    lies at the bottom."""
    with np.errstate(invalid="ignore"):
        shares = np.minimum(np.maximum(fractions, 0), 1)
        rows = np.rint((1 - shares) * (dots_down - 1) + _NEARER)
    return np.where(np.isnan(rows), dots_down - 1, rows).astype(np.intp)
