"""The protocol model's disk: real segment files whose unsynced bytes a power loss may take."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from unilab_metrics.aggregate.journaling import journal as journal_module
from unilab_metrics.aggregate.journaling import syncing
from unilab_metrics.aggregate.journaling.evidence import DURABLE_FILE, Durable, write_durable
from unilab_metrics.errors import StorageFullError
from unilab_metrics.storage.segments import SegmentWriter, list_segments


class Crash(Exception):  # noqa: N818 - no error of anybody's
    """The modelled process is gone."""


class Disk:
    """Where one schedule's journal lies, and how much of each file a power loss leaves."""

    def __init__(self, root: Path, rng: Random) -> None:
        self.root = root
        self.rng = rng
        self.synced: dict[int, int] = {}
        self.crash_chance = 0.0
        self.is_full = False
        self._open: list[SegmentWriter] = []
        self._evidence_rng = Random(root.name)
        self._evidence: list[bytes] = [b""]

    def point(self) -> None:
        """A place between two steps where a process may die."""
        if self.crash_chance and self.rng.random() < self.crash_chance:
            raise Crash

    def append(self, segment: SegmentWriter, data: bytes) -> int:
        """A write that may find no room, be torn by a kill, or just precede or follow one."""
        if segment not in self._open:
            self._open.append(segment)
        self.point()
        if self.is_full:
            raise StorageFullError(segment.path, len(data))
        if self.crash_chance and self.rng.random() < self.crash_chance / 2:
            os.write(segment._fd, data[: self.rng.randrange(len(data))])
            raise Crash
        offset = _append(segment, data)
        self.point()
        return offset

    def close_all(self) -> None:
        """What the kernel does when the process is gone."""
        for segment in self._open:
            segment.close()
        self._open.clear()

    def sync(self, fd: int) -> None:
        """Instead of ``fsync`` and ``fdatasync``."""
        status = os.fstat(fd)
        self.synced[status.st_ino] = status.st_size

    def sync_file(self, path: Path) -> None:
        status = path.stat()
        self.synced[status.st_ino] = status.st_size

    def lose_power(self) -> None:
        """Of what was not synced, a beginning survives, or zeros in its place."""
        for prefix in ("wal", "history"):
            for path in list_segments(self.root, prefix):
                size = path.stat().st_size
                synced = min(self.synced.get(path.stat().st_ino, 0), size)
                kept = self.rng.choice((synced, size, self.rng.randint(synced, size)))
                os.truncate(path, kept)
                if self.rng.random() < 0.3:
                    os.truncate(path, size)
                self.sync_file(path)
        self._lose_evidence()

    def write_durable(self, bus_dir: Path, what: Durable) -> None:
        """Remembers what the file said at any time, because nobody syncs it."""
        write_durable(bus_dir, what)
        self._evidence.append((bus_dir / DURABLE_FILE).read_bytes())

    def _lose_evidence(self) -> None:
        """It may be there, gone, old, torn, or the beginning of a newer one in an older one."""
        rng, path = self._evidence_rng, self.root / DURABLE_FILE
        how = rng.choice(("kept", "gone", "old", "torn", "mixed"))
        if not path.exists() or how == "kept":
            return
        newest, old = path.read_bytes(), rng.choice(self._evidence)
        at = rng.randrange(len(newest) + 1)
        left = {"old": old, "torn": newest[:at], "mixed": newest[:at] + old[at:]}
        if how == "gone":
            path.unlink()
        else:
            path.write_bytes(left[how])


_append = SegmentWriter.append


class _Thread:
    """The syncer's thread: runs when it is waited for, or when the model says so."""

    def __init__(self, target: Callable[[], None], **_: Any) -> None:
        self.target = target

    def start(self) -> None:
        pass

    def join(self) -> None:
        self.target()


def run_syncs(syncer: syncing.Syncer) -> None:
    """Let the syncer's thread do what it has been asked to."""
    syncer._jobs.put(None)
    syncer._thread.join()


@contextmanager
def modelled(disk: Disk, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Journals write to ``disk``, without threads and without waiting for a real one."""

    def append(segment: SegmentWriter, data: bytes) -> int:
        return disk.append(segment, data)

    patch.setattr(SegmentWriter, "append", append)
    patch.setattr(os, "fsync", disk.sync)
    patch.setattr(os, "fdatasync", disk.sync, raising=False)
    patch.setattr(journal_module, "write_durable", disk.write_durable)
    patch.setattr(syncing, "threading", SimpleNamespace(Thread=_Thread))
    try:
        yield
    finally:
        disk.close_all()
