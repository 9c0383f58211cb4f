"""The end of a run's ``console.log``, for a viewer on a machine that has the run directory."""

from __future__ import annotations

import os
from pathlib import Path

from unilab_metrics.config import CONSOLE_FILE, EARLIER_CONSOLE_FILE
from unilab_metrics.console_tail import tail_lines
from unilab_metrics.errors import StorageError
from unilab_metrics.storage.bounded_reading import read_end

TAIL_BYTES = 64 * 1024


def read_console(run_dir: Path, count: int, *, max_bytes: int = TAIL_BYTES) -> list[str]:
    """The last lines that the training has printed, as plain text; empty if nothing is kept.

    Looks into the earlier of the two files where the newer one has just begun. Reads at most
    ``max_bytes`` of each; never raises.
    """
    data, is_cut = _end_of(run_dir / CONSOLE_FILE, max_bytes)
    if not is_cut and len(data) < max_bytes:
        earlier, _ = _end_of(run_dir / EARLIER_CONSOLE_FILE, max_bytes)
        # The newer one goes on in the middle of a line.
        data, is_cut = earlier + data, len(earlier) >= max_bytes
    return tail_lines(data, count, is_cut=is_cut)


class ConsoleReader:
    """Reads again only what has changed. Owned by one thread; opens nothing between two calls."""

    def __init__(self, run_dir: Path, *, max_bytes: int = TAIL_BYTES) -> None:
        self._run_dir = run_dir
        self._max_bytes = max_bytes
        self._seen: object = None

    def poll(self, count: int) -> list[str] | None:
        """The last lines as of :func:`read_console`; ``None`` if nothing was added since the
        last call."""
        state = (count, *(self._state(name) for name in (CONSOLE_FILE, EARLIER_CONSOLE_FILE)))
        if state == self._seen:
            return None
        self._seen = state
        return read_console(self._run_dir, count, max_bytes=self._max_bytes)

    def _state(self, name: str) -> object:
        try:
            status = os.lstat(self._run_dir / name)
        except OSError:
            return None
        return status.st_ino, status.st_size


def _end_of(path: Path, max_bytes: int) -> tuple[bytes, bool]:
    try:
        data = read_end(path, max_bytes + 1)
    except (OSError, StorageError):
        return b"", False
    return data[-max_bytes:], len(data) > max_bytes
