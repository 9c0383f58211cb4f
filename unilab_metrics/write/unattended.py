"""A history that no aggregator looks after: how far it may be taken, and that it is on the disk.

After a loss of power the history may hold more than the wal accounts for. The next aggregator
cuts that off and numbers other entries in its place, so a backend must not have it.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from unilab_metrics.aggregate.journaling.recovery import recover
from unilab_metrics.storage.segments import list_segments, open_segment
from unilab_metrics.subscribe.history import HISTORY_PREFIX

_WAL_PREFIX = "wal"
_IN_DOUBT = 2
"""Newest segments of each kind that may not be on the disk yet."""


def make_durable(bus_dir: Path) -> None:
    """Sync what the last aggregator may not have got round to. The wal first: history that it
    does not account for would be cut off after a loss of power, and written again."""
    wal = list_segments(bus_dir, _WAL_PREFIX)[-_IN_DOUBT:]
    for path in (*wal, *list_segments(bus_dir, HISTORY_PREFIX)[-_IN_DOUBT:]):
        with contextlib.suppress(OSError):
            fd = open_segment(path)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)


def covered_update(bus_dir: Path) -> int | None:
    """The last update sequence that the next aggregator will keep; ``None`` for all, where no
    wal is left to ask. Raises what ``recover`` raises."""
    if not list_segments(bus_dir, _WAL_PREFIX):
        return None
    return recover(bus_dir).last_update
