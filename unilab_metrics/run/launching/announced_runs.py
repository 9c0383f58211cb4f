"""Which runs the command of a launcher has opened: a small file in a place of the launcher's own.

The launcher names the place in the environment of its command, and every rank 0 below it that
opens a run adds a line. One ``write`` of a short line with ``O_APPEND`` is whole or not there.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from unilab_metrics.config import CONSOLE_FILE, CONSOLE_VARIABLE, EARLIER_CONSOLE_FILE
from unilab_metrics.errors import StorageError
from unilab_metrics.storage.path_text import path_of, path_text
from unilab_metrics.storage.places import runtime_directory

RUNS_FILE = "runs"
_PREFIX = "launcher-"
_MOST_BYTES = 1024 * 1024


def announce_to_launcher(environ: Mapping[str, str], run_dir: Path) -> None:
    """Tell the launcher above us, if there is one still. Never raises, never waits."""
    place = environ.get(CONSOLE_VARIABLE)
    if not place:
        return
    # A launcher that has ended has removed the file; it is not made again.
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    with contextlib.suppress(OSError, ValueError):
        fd = os.open(os.path.join(place, RUNS_FILE), flags)
        try:
            os.write(fd, path_text(run_dir.absolute()).replace("\n", "\0").encode() + b"\n")
        finally:
            os.close(fd)


def is_launched(environ: Mapping[str, str]) -> bool:
    """Whether a launcher above us shows the run, so that nobody else takes its terminal."""
    place = environ.get(CONSOLE_VARIABLE)
    return bool(place) and os.path.exists(os.path.join(place or "", RUNS_FILE))


class AnnouncedRuns:
    """Reads the file as it grows; one thread, cheap enough for ten times a second."""

    def __init__(self, place: Path) -> None:
        self._path = place / RUNS_FILE
        self._read_bytes = 0

    def poll(self) -> list[Path]:
        """The runs that were opened since the last call, in order. Never raises."""
        try:
            if os.stat(self._path).st_size <= self._read_bytes:
                return []
            with self._path.open("rb") as file:
                file.seek(self._read_bytes)
                data = file.read(_MOST_BYTES)
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        texts = [line.decode(errors="replace").replace("\0", "\n") for line in whole.split(b"\n")]
        return [path_of(text) for text in texts if text]


class LauncherPlace:
    """The private directory, from the start of a launcher to its end."""

    def __enter__(self) -> Path:
        """Raises ``OSError`` if there is no room for a directory anywhere."""
        try:
            parent: Path | None = runtime_directory()
        except (OSError, StorageError):
            parent = None
        self._path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        try:
            os.close(os.open(self._path / RUNS_FILE, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600))
        except OSError:
            self._path.rmdir()
            raise
        return self._path

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # By their names: nothing else is ours to remove.
        for name in (RUNS_FILE, CONSOLE_FILE, EARLIER_CONSOLE_FILE):
            with contextlib.suppress(OSError):
                (self._path / name).unlink()
        with contextlib.suppress(OSError):
            self._path.rmdir()
