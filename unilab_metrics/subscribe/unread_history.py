"""Whether anything of a run's history can be read.

Bytes of which nothing can be read are damage. A history without an entry, or without a byte, is
none yet: what is wrong then is that nobody goes on with the run.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from unilab_metrics.errors import (
    DamagedFileError,
    NoLiveRunError,
    RunNotFoundError,
    UnilabMetricsError,
)
from unilab_metrics.storage.segments import list_segments, read_segment_header
from unilab_metrics.subscribe.history import HISTORY_PREFIX, HistoryReader
from unilab_metrics.subscribe.segment_chain import has_entries
from unilab_metrics.transport.rendezvous import bus_directory


def unread_history(path: Path | str) -> DamagedFileError:
    """What is to be said of a history whose newest segment is ``path``, if nothing of it can be
    read."""
    return DamagedFileError(path, 0, "nothing in it can be read")


def refuse_unread(run_dir: Path) -> None:
    """Raises :class:`DamagedFileError` if there is a history and all of it is damaged, and what
    ``HistoryReader.poll`` raises. One that was only begun is none. For runs that nobody is at work
    on."""
    bus_dir = bus_directory(run_dir)
    with HistoryReader(bus_dir) as reader:
        if reader.poll(1):
            return
        is_damaged = bool(reader.damaged or reader.damaged_at_end())
    segments = list_segments(bus_dir, HISTORY_PREFIX)
    if is_damaged or any(_is_torn(path) for path in segments):
        raise unread_history(segments[-1])


def unwritten_history(run_dir: Path) -> UnilabMetricsError:
    """What is to be said of a run whose history has no entry and no damage: that it was cut off
    if nobody of this machine is at work on it, else that there is nothing to see yet."""
    from unilab_metrics.subscribe.abandoned import find_abandoned

    bus_dir = bus_directory(run_dir)
    if has_entries(bus_dir):
        # There are some behind what cannot be read.
        return unread_history(list_segments(bus_dir, HISTORY_PREFIX)[-1])
    if find_abandoned(run_dir) is None:
        return RunNotFoundError(run_dir, "nothing of its history has been written")
    recover = f"`unilab-metrics recover {shlex.quote(os.fspath(run_dir))}` completes it"
    return NoLiveRunError(f"{run_dir} was cut off before any of its history was written; {recover}")


def _is_torn(path: Path) -> bool:
    """Whether there are bytes, and not even the first record of a segment is whole. A reader takes
    it for one that is being made."""
    return read_segment_header(path) is None and path.stat().st_size > 0
