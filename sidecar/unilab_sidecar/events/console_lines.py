"""What the training has printed, as numbered lines: read in pieces, held within bounds. Pure.

Lines have numbers that never change: those that are printed get higher ones, those of earlier
output that is read later get lower ones. What terminals would act on is taken out, see
:mod:`unilab_metrics.console_tail`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from unilab_metrics.console_tail import MAX_LINE_CHARS, plain_line
from unilab_sidecar.drawing.text import clean, width_of
from unilab_sidecar.groups.filtering import parse_filter

_CHUNK_LINES = 512
_LAST_CHUNKS = 3
_OPEN_BYTES = 8 * MAX_LINE_CHARS


class Chunk(NamedTuple):
    """Lines one after another. ``first``: the number of its first one. ``file`` and ``offset``:
    where it begins, if that is the begin of a line that more can be read before."""

    first: int
    lines: tuple[str, ...]
    file: str
    offset: int


class ConsoleText(NamedTuple):
    """An immutable view of what is held. ``state``: why there is nothing, for people. ``begins``:
    nothing older is kept, or nothing older is read any more, as ``above`` says."""

    chunks: tuple[Chunk, ...] = ()
    state: str = ""
    is_kept: bool = False
    begins: bool = False
    above: str = ""

    @property
    def begin(self) -> int:
        """The number of the first line."""
        return self.chunks[0].first if self.chunks else 0

    @property
    def end(self) -> int:
        """The number behind the last line."""
        return self.chunks[-1].first + len(self.chunks[-1].lines) if self.chunks else 0

    def numbers(self, wanted: str) -> Sequence[int]:
        """Of the lines that pass the filter ``wanted``, rising."""
        if not wanted.strip():
            return range(self.begin, self.end)
        return [
            chunk.first + place for chunk in self.chunks for place in _passing(chunk.lines, wanted)
        ]

    def line(self, number: int) -> str:
        """The text of a line, empty for a number that there is not."""
        low, high = 0, len(self.chunks)
        while low < high:
            middle = (low + high) // 2
            if self.chunks[middle].first <= number:
                low = middle + 1
            else:
                high = middle
        if not low:
            return ""
        chunk = self.chunks[low - 1]
        place = number - chunk.first
        return chunk.lines[place] if place < len(chunk.lines) else ""


def usual_width(console: ConsoleText) -> int:
    """Cells in which nine of ten of the last lines are whole: hardly ever another number."""
    widths = sorted(w for chunk in console.chunks[-_LAST_CHUNKS:] for w in _widths(chunk.lines))
    return widths[len(widths) * 9 // 10] if widths else 0


@lru_cache(maxsize=16)
def _widths(lines: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(width_of(clean(line)) for line in lines)


@lru_cache(maxsize=256)
def _passing(lines: tuple[str, ...], wanted: str) -> tuple[int, ...]:
    return tuple(parse_filter(wanted).places(lines))


def split_lines(data: bytes) -> tuple[list[str], bytes]:
    """Whole lines as text, and the bytes of the last one that has not ended yet."""
    *whole, rest = data.split(b"\n")
    return [text_of(line) for line in whole], rest


def text_of(line: bytes) -> str:
    """The text that a line shows. Of a long one its last state is looked for in its end, and its
    begin is what is shown of it."""
    if len(line) > 4 * _OPEN_BYTES:
        line = shortened(line)
    return plain_line(line.decode("utf-8", "replace"))


def shortened(line: bytes) -> bytes:
    """As much of a line that has not ended as what it shows can depend on."""
    if len(line) <= _OPEN_BYTES:
        return line
    # Whatever a carriage return has written over is gone, but for an empty last state.
    last = line.rstrip(b"\r").rfind(b"\r")
    if last > 0:
        line = line[max(line.rfind(b"\r", 0, last), 0) :]
    return line[:_OPEN_BYTES]


def chunked(first: int, lines: Sequence[str], file: str, offset: int) -> list[Chunk]:
    """Lines as chunks; only the first one's begin is known in the file."""
    made: list[Chunk] = []
    for at in range(0, len(lines), _CHUNK_LINES):
        part = tuple(lines[at : at + _CHUNK_LINES])
        made.append(Chunk(first + at, part, file if not at else "", offset))
    return made


def extended(chunk: Chunk, lines: Sequence[str]) -> Chunk | None:
    """The chunk with more lines, ``None`` if it is full."""
    if len(chunk.lines) + len(lines) > _CHUNK_LINES:
        return None
    return chunk._replace(lines=(*chunk.lines, *lines))
