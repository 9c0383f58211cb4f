"""Earlier runs beside one: those in the same folder, which is that of their task."""

from __future__ import annotations

from pathlib import Path

from unilab_metrics.storage.segments import list_segments
from unilab_metrics.subscribe.asking import NoAnswer
from unilab_metrics.subscribe.history import HISTORY_PREFIX
from unilab_metrics.subscribe.past_files import PastFiles, Stretch
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_schema.control import Blocks

_MOST = 20


class PastRun:
    """The files of another run. Owned by one thread."""

    def __init__(self, run_dir: Path) -> None:
        """Raises ``UnknownVersionError`` and ``OSError``."""
        self._past = PastFiles(bus_directory(run_dir))
        self.cursor: int | None = self._past.last()

    def newest(self) -> int:
        """Its last update sequence."""
        return self.cursor or 0

    def bins(self, tags: tuple[str, ...], after: int) -> Blocks | NoAnswer | None:
        """As of a ``Subscriber``."""
        return self._past.bins(tags, after)

    def stretch(self, after: int, limit: int) -> Stretch | NoAnswer | None:
        """As of a ``Subscriber``."""
        return self._past.stretch(after, limit)


class EarlierRuns:
    """Owned by one thread; keeps the one that was opened last."""

    def __init__(self, run_dir: Path | None) -> None:
        """``run_dir``: of the run, ``None`` where it is not on this machine."""
        self._run_dir = run_dir
        self._opened: tuple[str, PastRun] | None = None

    def names(self) -> tuple[str, ...]:
        """Of the runs that began before this one, the newest first: their directories' names begin
        with the time. Raises ``OSError``."""
        if self._run_dir is None:
            return ()
        own = self._run_dir.resolve()
        earlier = sorted((p for p in own.parent.iterdir() if p.name < own.name), reverse=True)
        found: list[str] = []
        for path in earlier:
            if len(found) < _MOST and list_segments(bus_directory(path), HISTORY_PREFIX):
                found.append(path.name)
        return tuple(found)

    def open(self, name: str) -> PastRun | None:
        """The run of that name; ``None`` if there is none. Raises as :class:`PastRun` does."""
        if self._opened is None or self._opened[0] != name:
            if self._run_dir is None or name not in self.names():
                return None
            self._opened = name, PastRun(self._run_dir.resolve().parent / name)
        return self._opened[1]
