"""A segment without a file: what a process says of itself while its spool cannot be made.

Its memory is bounded by who appends, and gone with the process.
"""

from __future__ import annotations

from array import array
from pathlib import Path

from unilab_metrics.publish.spool_segment import SpoolSegment


class MemorySegment(SpoolSegment):
    """The first segment of such a spool. As its base is used, without an error of any disk."""

    def __init__(self) -> None:
        self.path = Path()
        self.first = 1
        self.ends = array("Q")
        self.stamps = array("q")
        self.size_bytes = 0
        self.is_damaged = False
        self._preamble_bytes = 0
        self._data = bytearray()

    def append(self, record: bytes, mono_ns: int) -> None:
        """Keep one record and count it."""
        self._data += record
        self.stamps.append(mono_ns)
        self.size_bytes += len(record)
        self.ends.append(self.size_bytes)

    def discard_uncounted(self) -> None:
        """Forget what an interrupted append left behind."""
        del self.stamps[len(self.ends) :]
        self.size_bytes = self.ends[-1] if self.ends else 0
        del self._data[self.size_bytes :]

    def read(self, start: int, end: int) -> bytes:
        """Bytes of the records."""
        return bytes(self._data[start:end])

    @property
    def is_ours(self) -> bool:
        """There is no descriptor that somebody could close."""
        return True

    @property
    def is_short(self) -> bool:
        """There is no file that somebody could shorten."""
        return False

    def close(self) -> None:
        """There is nothing to close."""

    def delete(self) -> None:
        """Forget everything."""
        self._data.clear()
