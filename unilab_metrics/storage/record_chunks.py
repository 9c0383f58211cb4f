"""The records of a file of any length, a few megabytes at a time."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from typing import NamedTuple

from unilab_metrics.storage.records import (
    HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    Scan,
    resume_offset,
    scan,
)
from unilab_metrics.storage.segments import read_at

CHUNK_BYTES = 2 * 1024 * 1024
_MOST_BYTES = HEADER_BYTES + MAX_PAYLOAD_BYTES


class Chunk(NamedTuple):
    """``begin``: where ``data`` lies in the file; ``is_last``: there is no more of it."""

    begin: int
    found: Scan
    is_last: bool
    data: bytes

    @property
    def following(self) -> int:
        """Where the next one begins, if this is not the last."""
        is_any = bool(self.found.records)
        return self.begin + (self.found.valid_bytes if is_any else resume_offset(self.data))


def chunks(
    fd: int,
    begin: int = 0,
    *,
    kinds: Container[int] | None = None,
    limit: int | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[Chunk]:
    """Each good record from the record boundary ``begin`` on, as one scan of it all would find
    them. ``limit``: bytes that count. Raises ``OSError``."""
    size = os.fstat(fd).st_size
    if limit is not None:
        size = min(size, limit)
    offset, wanted = begin, chunk_bytes
    while True:
        data = read_at(fd, offset, max(min(wanted, size - offset), 0))
        is_last = offset + len(data) >= size
        # No record is larger: what seems to go on behind this is damage.
        is_complete = is_last or len(data) >= _MOST_BYTES
        found = scan(data, kinds=kinds, complete=is_complete)
        if not found.records and not is_complete:
            wanted = min(4 * wanted, _MOST_BYTES)
            continue
        chunk = Chunk(offset, found, is_last, data)
        yield chunk
        if is_last or not data:
            return
        offset = chunk.following
        wanted = chunk_bytes
