"""Saying that a recovery has no room: where, how much it takes, and that nothing is lost by it."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from unilab_metrics.errors import StorageError, why
from unilab_metrics.storage.spool_places import spools_in

_MIB = 1024 * 1024
_COPIES = 2
"""What lies in the spools goes into the wal, and as updates into the history."""
_LEAST_BYTES = 1 * _MIB
"""For what ends a run, its snapshot and its summary."""


class NoRoomError(StorageError):
    """Facts: ``path``, ``needed_bytes`` (an estimate), ``free_bytes`` (``None`` if unknown)."""

    def __init__(
        self, path: Path | str, reason: str, needed_bytes: int, free_bytes: int | None
    ) -> None:
        free = "" if free_bytes is None else f", {free_bytes // 1024:,} KiB are free"
        size = f"about {math.ceil(needed_bytes / _MIB):,} MiB"
        super().__init__(
            path,
            f"{reason}; the recovery needs {size} on that file system{free}. Nothing is lost: what was "
            "written stays, the rest waits where it is. Free that much and run it again",
        )
        self.needed_bytes = needed_bytes
        self.free_bytes = free_bytes


def no_room(error: OSError | StorageError, bus_dir: Path, places: Sequence[Path]) -> NoRoomError:
    """What to say of ``error``, which says that there was none. ``places``: where spools lie."""
    if isinstance(error, StorageError):
        path, reason = error.path, error.reason
    else:
        path = bus_dir if error.filename is None else Path(os.fsdecode(error.filename))
        reason = why(error)
    return NoRoomError(path, reason, _needed_bytes(places), _free_bytes(path))


def _needed_bytes(places: Sequence[Path]) -> int:
    total = 0
    for directory in spools_in(places):
        with suppress(OSError):
            total += sum(entry.stat().st_size for entry in os.scandir(directory))
    return _COPIES * total + _LEAST_BYTES


def _free_bytes(path: Path) -> int | None:
    for place in (path, *path.parents):
        with suppress(OSError):
            found = os.statvfs(place)
            return found.f_bavail * found.f_frsize
    return None
