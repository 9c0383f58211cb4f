"""Dots on a grid of cells, and the cells as text. Pure, numpy.

A braille cell has 2 by 4 dots; without Unicode a cell has 1 by 3, drawn as ``'``, ``-``, ``_``
and ``|``. Every cell has one style: that of what was drawn there last.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from unilab_sidecar.chart_bins import Bools, Float64s
from unilab_sidecar.text import Line, Segment, Style

Ints = npt.NDArray[np.intp]
_BRAILLE = 0x2800
_BRAILLE_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], dtype=np.uint32)
_ASCII_LINE = np.array([ord(c) for c in " '-|_|||"], dtype=np.uint32)
_ASCII_BITS = np.array([[1], [2], [4]], dtype=np.uint32)
_ASCII_FILL = ord(":")


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
        across = np.arange(self.dots_across)
        self._checks = (self._heights + across) % 2 == 0
        self._sparse = (self._heights % 2 == 0) & ((self._heights // 2 + across) % 2 == 0)

    def band(self, top: Ints, bottom: Ints, wanted: Bools, style: Style, *, sparse: bool) -> None:
        """Per dot column the stretch from ``top`` to ``bottom``: both ends always, so that the
        highest of a million values is there, and every other dot between them (``sparse``: every
        fourth, where bands lie on each other)."""
        inside = (self._heights >= top) & (self._heights <= bottom) & wanted
        is_end = (self._heights == top) | (self._heights == bottom)
        self._put(self._fill, inside & ((self._sparse if sparse else self._checks) | is_end), style)

    def line(self, top: Ints, bottom: Ints, wanted: Bools, style: Style, letter: str = "") -> None:
        """Per dot column the stretch from ``top`` to ``bottom``, all of it. ``letter``: what a
        cell shows where there are no braille dots to tell lines apart."""
        dots = (self._heights >= top) & (self._heights <= bottom) & wanted
        if not self.unicode:
            # One character cannot show two lines: the one in front has it.
            taken = _any_dot(self._cells(dots))
            self._line &= ~np.repeat(taken, self.down, axis=0)
        cells = self._put(self._line, dots, style)
        self._letters[cells] = ord(letter) if letter else 0

    def _put(self, layer: Bools, dots: Bools, style: Style) -> Bools:
        layer |= dots
        cells = _any_dot(self._cells(dots))
        if style not in self._styles:
            self._styles.append(style)
        self._style[cells] = self._styles.index(style)
        return cells

    def _cells(self, dots: Bools) -> Bools:
        return np.reshape(dots, (self.rows, self.down, self.columns, self.across))

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
        return [self._text(codes[row], styles[row]) for row in range(self.rows)]

    def _codes(self) -> npt.NDArray[np.uint32]:
        line = self._cells(self._line)
        fill = self._cells(self._fill)
        has_line = _any_dot(line)
        if not self.unicode:
            codes = np.where(
                self._letters > 0, self._letters, _ASCII_LINE[_weighed(line, _ASCII_BITS)]
            )
            return np.where(~has_line & _any_dot(fill), _ASCII_FILL, codes).astype(np.uint32)
        # A line must not drown in its own band.
        dots = np.logical_or(line, np.logical_and(fill, ~has_line[:, None, :, None]))
        bits = _weighed(dots, _BRAILLE_BITS)
        return np.where(bits > 0, bits + _BRAILLE, ord(" ")).astype(np.uint32)

    def _text(self, codes: npt.NDArray[np.uint32], styles: Ints) -> Line:
        text = codes.astype("<u4").tobytes().decode("utf-32-le")
        # A blank has no style of its own; it goes with what is before it.
        changes = np.flatnonzero(np.diff(styles)) + 1
        edges = [0, *changes.tolist(), len(text)]
        return tuple(
            Segment(text[first:last], self._styles[styles[first]])
            for first, last in pairwise(edges)
            if last > first
        )


def _any_dot(cells: Bools) -> Bools:
    return np.asarray(np.any(cells, axis=(1, 3)), dtype=bool)


def _weighed(cells: Bools, weights: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    return np.asarray(np.einsum("rdca,da->rc", cells, weights), dtype=np.uint32)


def dot_rows(fractions: Float64s, dots_down: int) -> Ints:
    """The row of dots for fractions of the height, 1 at the top; NaN lies at the bottom."""
    with np.errstate(invalid="ignore"):
        shares = np.minimum(np.maximum(fractions, 0), 1)
        rows = np.rint((1 - shares) * (dots_down - 1))
    return np.where(np.isnan(rows), dots_down - 1, rows).astype(np.intp)
