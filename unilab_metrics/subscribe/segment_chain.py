"""Which history segments count, in which order, and up to which byte.

A segment's header names the segment that it continues and how many bytes of that one are
valid. Following these from the newest segment back leaves out what a replaced aggregator
wrote later: its bytes beyond the named length, and whole segments that nobody continues.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from pathlib import Path
from typing import NamedTuple

from unilab_metrics.errors import DamagedFileError
from unilab_metrics.storage.record_chunks import chunks
from unilab_metrics.storage.segments import (
    KIND_SEGMENT_HEADER,
    SegmentHeader,
    list_segments,
    open_segment,
    read_segment_header,
)

HISTORY_PREFIX = "history"
HISTORY_KINDS = frozenset([KIND_SEGMENT_HEADER, *range(32, 64)])
_FIRST_BYTES = 64 * 1024


class Link(NamedTuple):
    """A segment that counts. ``limit``: its valid bytes, ``None`` where no successor says it;
    ``is_last``: more may still be appended."""

    path: Path
    limit: int | None
    is_last: bool


class Beginning(NamedTuple):
    """Where the reading of a history may begin: a record boundary of the segment ``path``, and the
    layouts that lie before it."""

    path: Path
    offset: int
    layouts: dict[int, tuple[str, ...]]


def sequences(link: Link, kinds: Container[int]) -> Iterator[int]:
    """Those of its records that have one, in the order in which they lie there. Raises ``OSError``."""
    fd = open_segment(link.path)
    try:
        for chunk in chunks(fd, kinds=kinds, limit=link.limit):
            yield from (record.sequence for record in chunk.found.records if record.sequence)
    finally:
        os.close(fd)


def first_sequence(link: Link, kinds: Container[int]) -> int:
    """Of the first record that has one, 0 for none. Raises ``OSError``."""
    fd = open_segment(link.path)
    try:
        for chunk in chunks(fd, kinds=kinds, limit=link.limit, chunk_bytes=_FIRST_BYTES):
            if found := next((one.sequence for one in chunk.found.records if one.sequence), 0):
                return found
        return 0
    finally:
        os.close(fd)


def has_entries(bus_dir: Path) -> bool:
    """Whether anything of a run's history can be read, without what decoding it needs. Raises as
    :meth:`SegmentChain.links` does."""
    links = SegmentChain(bus_dir, HISTORY_PREFIX).links()
    return any(first_sequence(link, HISTORY_KINDS) for link in reversed(links))


class SegmentChain:
    """The chain of one prefix in one directory; headers are read once. Owned by one thread."""

    def __init__(self, directory: Path, prefix: str) -> None:
        self._directory = directory
        self._prefix = prefix
        self._headers: dict[str, SegmentHeader | None] = {}
        self._names: list[str] = []
        self._has_unfinished = False
        self._links: list[Link] = []
        self.missing: set[str] = set()
        """Segments that a header names and that are not there."""
        self._damaged: set[str] = set()

    @property
    def damaged_headers(self) -> int:
        """Segments that count and whose header cannot be read."""
        return len(self._damaged)

    def links(self) -> list[Link]:
        """From the oldest to the newest. Raises ``UnknownVersionError`` and ``OSError``."""
        paths = list_segments(self._directory, self._prefix)
        names = [path.name for path in paths]
        if names != self._names or self._has_unfinished:
            self._read_headers(paths)
            self._names = names
            self._links = self._follow(paths)
        return self._links

    def _read_headers(self, paths: list[Path]) -> None:
        self._has_unfinished = False
        for path in paths:
            if path.name in self._headers:
                continue
            try:
                header = read_segment_header(path)
            except DamagedFileError:
                self._headers[path.name] = None
                continue
            if header is None:
                # Just being made, or its writer died while making it: nothing is in it yet.
                self._has_unfinished = True
            else:
                self._headers[path.name] = header

    def _follow(self, paths: list[Path]) -> list[Link]:
        usable = [path for path in paths if path.name in self._headers]
        position = {path.name: index for index, path in enumerate(usable)}
        links: list[Link] = []
        index = len(usable) - 1
        limit: int | None = None
        while index >= 0:
            links.append(Link(usable[index], limit, not links))
            header = self._headers[usable[index].name]
            if header is None:
                self._damaged.add(usable[index].name)
                index, limit = index - 1, None
            elif not header.previous_name:
                break
            elif position.get(header.previous_name, index) < index:
                index, limit = position[header.previous_name], header.previous_valid_bytes
            else:
                self.missing.add(header.previous_name)
                index, limit = index - 1, None
        return links[::-1]
