"""The protocol model's writer: the real history reader, and an output that holds its own cursor."""

from __future__ import annotations

from random import Random

import msgspec
from protocol_model_disk import Disk

from unilab_metrics.storage.segments import list_segments
from unilab_metrics.subscribe.history import HistoryReader


class ModelWriter:
    """``output``: what the backend's file holds; ``(sequence, entry)``, and marks as ``None``."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._reader: HistoryReader | None = None
        self.output: list[tuple[int, bytes | None]] = []

    @property
    def cursor(self) -> int:
        """The last mark: what a restart believes."""
        return next((sequence for sequence, data in reversed(self.output) if data is None), 0)

    def turn(self, rng: Random, durable: int | None) -> None:
        """Take what is durable. ``durable``: ``None`` when the aggregator is gone, and then
        the writer makes sure itself that it is on the disk."""
        if self._reader is None:
            while self.output and self.output[-1][1] is not None:
                self.output.pop()
            self._reader = HistoryReader(self._disk.root, self.cursor)
        if durable is None:
            self.sync()
        records = self._reader.poll(rng.randint(1, 50), durable)
        entries = [(r.sequence, msgspec.msgpack.encode(r.entry)) for r in records]
        if entries:
            self.write(rng, entries)

    def sync(self) -> None:
        for prefix in ("wal", "history"):
            for path in list_segments(self._disk.root, prefix):
                self._disk.sync_file(path)

    def write(self, rng: Random, entries: list[tuple[int, bytes]]) -> None:
        self.output += entries
        if self._disk_kills(rng):
            self.crash(rng)
            return
        self.output.append((entries[-1][0], None))

    def _disk_kills(self, rng: Random) -> bool:
        return rng.random() < 0.05

    def crash(self, rng: Random) -> None:
        """Killed between two writes."""
        del rng
        self.stop()

    def lose_power(self, rng: Random) -> None:
        """Its own file is synced by nobody: a beginning survives."""
        self.stop()
        del self.output[rng.randint(0, len(self.output)) :]

    def stop(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
