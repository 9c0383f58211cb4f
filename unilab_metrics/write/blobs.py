"""Chunks back into blobs; pure.

A source sends the chunks of a blob in order, so a chunk that does not continue an open
blob belongs to one whose beginning is not here, and is passed over.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from unilab_schema.frames import BlobFrame
from unilab_schema.identity import SourceKey

MAX_OPEN_BYTES = 64 * 1024 * 1024
"""Chunks that may wait for the rest of their blobs; beyond it the oldest blob is given up."""


@dataclass
class _OpenBlob:
    first_sequence: int
    parts: int
    chunks: list[bytes] = field(default_factory=list[bytes])


class BlobAssembly:
    """The blobs of a run that have begun and not ended; owned by one thread."""

    def __init__(self, max_open_bytes: int = MAX_OPEN_BYTES) -> None:
        self._open: dict[tuple[SourceKey, int], _OpenBlob] = {}
        self._open_bytes = 0
        self._max_open_bytes = max_open_bytes
        self.given_up = 0
        """Blobs whose rest never came."""

    @property
    def first_open_sequence(self) -> int | None:
        """Update sequence of the oldest chunk that still waits for the rest of its blob."""
        return min((blob.first_sequence for blob in self._open.values()), default=None)

    @property
    def open_count(self) -> int:
        """How many wait for the rest."""
        return len(self._open)

    def add(self, source: SourceKey, frame: BlobFrame, sequence: int) -> bytes | None:
        """The whole blob's data if this chunk completes it."""
        if frame.parts <= 1:
            return frame.data
        key = (source, frame.blob)
        if frame.part == 0:
            self._drop(key)
            self._open[key] = _OpenBlob(sequence, frame.parts)
        blob = self._open.get(key)
        if blob is None or frame.part != len(blob.chunks) or frame.parts != blob.parts:
            return None
        blob.chunks.append(frame.data)
        self._open_bytes += len(frame.data)
        if len(blob.chunks) == blob.parts:
            del self._open[key]
            data = b"".join(blob.chunks)
            self._open_bytes -= len(data)
            return data
        while self._open_bytes > self._max_open_bytes:
            self._drop(next(iter(self._open)))
        return None

    def give_up(self) -> None:
        """Forget every open blob: a later attempt has replaced theirs."""
        for key in list(self._open):
            self._drop(key)

    def _drop(self, key: tuple[SourceKey, int]) -> None:
        blob = self._open.pop(key, None)
        if blob is not None:
            self._open_bytes -= sum(map(len, blob.chunks))
            self.given_up += 1
