"""Rank 0's run: opened at once or, where there is no room for it, as soon as there is; then
its aggregator is kept alive.

A run directory that cannot be written costs the training nothing: its frames wait in the
spools, and somebody may make room.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from unilab_metrics.errors import StorageError
from unilab_metrics.helper_life import Heard, Trouble
from unilab_metrics.run.opening import supervise_aggregator
from unilab_metrics.run.reaping import Reaper
from unilab_metrics.run.supervision import Supervisor


class Introduce(Protocol):
    """Says to processes that cannot see the run directory where its aggregator is."""

    def __call__(self, run_dir: Path, *, hurry: bool) -> None:
        """Called often; ``hurry``: rank 0 closes. Never raises, never waits."""
        ...


class RankZeroRun:
    """Opened by the thread that calls ``init()``, then called by the shipper's thread, as its
    :class:`~unilab_metrics.publish.aggregator_care.Supervise`."""

    def __init__(
        self,
        run_dir: Path | None,
        *,
        choose: Callable[[], Path],
        fill: Callable[[Path], Path],
        report: Callable[[Trouble], None],
        introduce: Introduce | None = None,
    ) -> None:
        """``run_dir``: if it is known already, else ``choose`` makes one. ``fill``: open the
        run in it; returns its real path. Both raise ``OSError`` and ``StorageError``."""
        self._run_dir = run_dir
        self._choose = choose
        self._fill = fill
        self._report = report
        self._introduce = introduce
        self._supervisor: Supervisor | None = None
        self._reaper: Reaper | None = None
        self.beside: Callable[[], None] | None = None
        """Looked after too, each time; never waits, never raises."""
        self.trouble = ""
        """Why the run is not open, with the path; empty once it is."""
        self._open()

    @property
    def run_dir(self) -> Path | None:
        """Where the run lies or is to lie, ``None`` while not even that is known."""
        return self._run_dir

    def __call__(self, *, hurry: bool, heard: Heard | None) -> str:
        """Look after the aggregator, or try again to open the run."""
        if self.beside is not None:
            self.beside()
        if self._supervisor is None:
            self._open()
        if self._supervisor is None:
            return f"has no run directory: {self.trouble}"
        if self._reaper is not None:
            self._reaper()
        trouble = self._supervisor(hurry=hurry, heard=heard)
        if self._introduce is not None and self._run_dir is not None:
            self._introduce(self._run_dir, hurry=hurry)
        return trouble

    def _open(self) -> None:
        try:
            # A directory that was made and cannot be filled yet is not made again.
            self._run_dir = self._run_dir or self._choose()
            self._run_dir = self._fill(self._run_dir)
        except (OSError, StorageError) as error:
            self.trouble = str(error)
        else:
            self.trouble = ""
            self._supervisor = supervise_aggregator(self._run_dir, self._report)
            self._reaper = Reaper(self._run_dir)
