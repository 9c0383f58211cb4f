"""Writers that have become our own children: as the first process of a container, a training is
given every process whose parent has died, and has to wait for them.

Only processes that held a writer's lease of our run are waited for; a training's own children
are its own business.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from unilab_metrics.storage.lease import owner_pid
from unilab_metrics.storage.process_table import stat_fields
from unilab_metrics.transport.rendezvous import bus_directory

_STATE, _PARENT, _START = 0, 1, 19
_MOST_KNOWN = 64


class Reaper:
    """Called about once a second by one thread of the training; never waits, never raises."""

    def __init__(self, run_dir: Path) -> None:
        self._bus = bus_directory(run_dir)
        self._known: set[tuple[int, str]] = set()

    def __call__(self) -> None:
        """Look at the writers; without effect in a process that is not the first one."""
        if os.getpid() != 1:
            return
        with contextlib.suppress(OSError):
            for path in self._bus.glob("writer-*.lease"):
                self._remember(owner_pid(path))
        for pid, start in list(self._known):
            fields = stat_fields(pid)
            if len(fields) <= _START or fields[_START] != start:
                self._known.discard((pid, start))
            elif fields[_STATE] == "Z" and fields[_PARENT] == "1":
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def _remember(self, pid: int | None) -> None:
        fields = stat_fields(pid) if pid else []
        if pid and len(fields) > _START and len(self._known) < _MOST_KNOWN:
            self._known.add((pid, fields[_START]))
