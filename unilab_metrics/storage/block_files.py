"""The files that hold a long history in brief: which blocks there are, and reading some of them.

One reader for the aggregator, which makes these files, and for viewers of a run that nobody is at
work on: both give the same answer.
"""

from __future__ import annotations

import contextlib
import os
import time
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from unilab_metrics.errors import IrregularFileError
from unilab_metrics.storage.record_chunks import chunks
from unilab_metrics.storage.records import Record, scan
from unilab_metrics.storage.segments import counter_of, list_segments, open_segment, read_at
from unilab_schema.codec import FrameDecodeError, RecordKind, decode_payload
from unilab_schema.updates import BinBlock

if TYPE_CHECKING:
    from typing_extensions import Self

BLOCKS = "blocks"
REPLY_BYTES = 256 * 1024
"""Blocks beyond it are asked for again."""
_KINDS = frozenset([RecordKind.BIN_BLOCK])
_FIGURES = ("minimum", "maximum", "mean", "count", "latest", "not_finite")
_LEAST_BLOCK_BYTES = 160
_MOST_SELECTIONS = 64


class BlockPlace(NamedTuple):
    """Where a block, or a part of one, lies."""

    path: Path
    offset: int
    length: int


class Found(NamedTuple):
    """All that the blocks of the entries ``first..last`` say; ``complete``: there are no further
    ones yet. Nothing is covered where ``last`` is below ``first``."""

    blocks: tuple[BinBlock, ...]
    first: int
    last: int
    complete: bool


class _Where(msgspec.Struct, frozen=True, array_like=True):
    """Of a :class:`BinBlock`, what says which one it is."""

    first: int
    last: int
    attempt: msgspec.Raw
    iteration_range: msgspec.Raw
    env_steps_range: msgspec.Raw
    unix_ns_range: msgspec.Raw
    elapsed_s_range: msgspec.Raw
    tags: msgspec.Raw
    minimum: msgspec.Raw
    maximum: msgspec.Raw
    mean: msgspec.Raw
    count: msgspec.Raw
    latest: msgspec.Raw
    part: int = 0
    parts: int = 1


_where_decoder = msgspec.msgpack.Decoder(_Where)


class BlockFiles:
    """The blocks of one run. Owned by one thread."""

    def __init__(self, bus_dir: Path) -> None:
        self._bus_dir = bus_dir
        self._places: dict[int, list[BlockPlace]] = {}
        self._lasts: dict[int, int] = {}
        self._starts: list[int] = []
        self._looked_at: dict[Path, int] = {}

    def __contains__(self, first: int) -> bool:
        return first in self._places

    def look(self) -> None:
        """Notes the blocks that lie there now; a file that cannot be read has none, because the
        history has it all. Raises ``OSError``."""
        for path in list_segments(self._bus_dir, BLOCKS):
            with contextlib.suppress(IrregularFileError, PermissionError, FileNotFoundError):
                self._look_into(path)

    def _look_into(self, path: Path) -> None:
        fd = open_segment(path)
        try:
            for chunk in chunks(fd, self._looked_at.get(path, 0)):
                self._looked_at[path] = chunk.begin + chunk.found.valid_bytes
                self._note_all(path, chunk.begin, chunk.found.records)
        finally:
            os.close(fd)

    def _note_all(self, path: Path, begin: int, records: Iterable[Record]) -> None:
        for record in records:
            if record.kind != RecordKind.BIN_BLOCK:
                continue
            try:
                where = _where_decoder.decode(record.payload)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                continue
            place = BlockPlace(path, begin + record.start, record.end - record.start)
            self.note(where.first, where.last, where.part, place)

    def keep(self, begins: Iterable[tuple[int, int]], last: int) -> None:
        """Forgets the blocks that tell of other entries than the history: those beyond its
        ``last`` one, and those made before a later epoch gave their sequences anew, as after the
        loss of a node. ``begins``: the epoch counter of each history segment that counts, and its
        first sequence."""
        again: dict[int, int] = {}
        for counter, first in begins:
            again[counter] = min(first, again.get(counter, first))
        for start in self._starts:
            ours = min(counter_of(place.path) for place in self._places[start])
            through = min([last, *(first - 1 for made, first in again.items() if made > ours)])
            if self._lasts[start] > through:
                del self._places[start], self._lasts[start]
        self._starts = sorted(self._places)

    def note(self, first: int, last: int, part: int, place: BlockPlace) -> None:
        """A block, or a part of one, lies there; a later one takes its place."""
        places = self._places.get(first)
        if places is None:
            places = self._places[first] = []
            if self._starts and first < self._starts[-1]:
                self._starts.insert(bisect_right(self._starts, first), first)
            else:
                self._starts.append(first)
        if part == 0:
            places.clear()
        places.append(place)
        self._lasts[first] = last

    def read(self, tags: Sequence[str], after: int, *, budget_s: float) -> Found:
        """The blocks that begin behind the update sequence ``after``, with these tags or, if none
        is named, with all; as many as ``budget_s`` and one message allow, at least one of them.

        They come without a hole: where one is missing the answer ends before it.
        """
        until_s = time.monotonic() + budget_s
        at = bisect_right(self._starts, after)
        first = self._starts[at] if at < len(self._starts) else after + 1
        last = first - 1
        chosen: list[BinBlock] = []
        size = 0
        with _Reader(frozenset(tags)) as reader:
            while at < len(self._starts) and self._starts[at] == last + 1:
                for place in self._places[self._starts[at]]:
                    block = reader.read(place)
                    if block is None:
                        continue
                    if size <= 2 * REPLY_BYTES:
                        # A block of more tags than a reply holds is cut; they can be named.
                        chosen.append(block)
                    size += _size_of(block)
                last = self._lasts[self._starts[at]]
                at += 1
                if size > REPLY_BYTES or time.monotonic() >= until_s:
                    break
        return Found(tuple(chosen), first, last, at == len(self._starts))


class _Reader:
    """Reads blocks one after the other, with some of their tags."""

    def __init__(self, wanted: frozenset[str]) -> None:
        self._wanted = wanted
        self._path: Path | None = None
        self._fd = -1
        self._selections: dict[tuple[str, ...], list[int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._close()

    def read(self, place: BlockPlace) -> BinBlock | None:
        """``None`` for one that has none of the tags, or cannot be read."""
        if place.path != self._path:
            self._close()
            with contextlib.suppress(OSError):
                self._fd = open_segment(place.path)
                self._path = place.path
        if self._fd < 0:
            return None
        try:
            records = scan(read_at(self._fd, place.offset, place.length), kinds=_KINDS).records
            block = decode_payload(RecordKind.BIN_BLOCK, records[0].payload) if records else None
        except (FrameDecodeError, OSError):
            return None
        return self._only(block) if block is not None and self._wanted else block

    def _only(self, block: BinBlock) -> BinBlock | None:
        kept = self._selections.get(block.tags)
        if kept is None:
            kept = [place for place, tag in enumerate(block.tags) if tag in self._wanted]
            if len(self._selections) >= _MOST_SELECTIONS:
                self._selections.clear()
            self._selections[block.tags] = kept
        if not kept:
            return None
        figures = {
            name: np.frombuffer(packed, dtype="<f8")[kept].tobytes()
            for name in _FIGURES
            if (packed := getattr(block, name))
        }
        names = tuple(block.tags[place] for place in kept)
        return msgspec.structs.replace(block, tags=names, part=0, parts=1, **figures)

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._path = -1, None


def _size_of(block: BinBlock) -> int:
    names = sum(len(tag) if tag.isascii() else 4 * len(tag) for tag in block.tags)
    return _LEAST_BLOCK_BYTES + names + len(block.tags) * (8 * len(_FIGURES) + 5)
