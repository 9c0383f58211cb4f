"""Who of a command goes on after its end or after it was asked to stop, and what is said of them.

The background jobs of a shell script never hear of Ctrl+C, and the script itself ends by it: they
train on, and nobody sees them any more. Nor does a training that has made itself a daemon, which no
table of processes shows to be ours: the lease of the run that it holds does, and the place of ours
that its environment names.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from unilab_metrics.run.bus_settings import read_settings
from unilab_metrics.run.launching.process_tree import ProcessTree, helpers_of
from unilab_metrics.storage.lease import owner_pid
from unilab_metrics.storage.spool_places import spool_places, spools_in
from unilab_metrics.storage.spool_reader import LEASE_NAME

_LOOK_S = 0.5
_STOP_S = 5.0
"""A training that has not ended by then is said to be at work."""
_MOST = 16


class LeftBehind:
    """Of a command that was started with ``start_new_session=True``. Owned by the main thread."""

    def __init__(self, process: subprocess.Popen[bytes], mark: str) -> None:
        """``process``: it has just been started, with ``mark``, a ``NAME=VALUE`` that no other
        command has, in its environment."""
        self._process = process
        self._tree = ProcessTree(process.pid)
        self._mark = os.fsencode(mark)
        self._spare: set[int] = set()
        self._living: list[int] = []
        self._asked_s: float | None = None
        self._looked_s = 0.0
        self._is_said = False

    def asked_to_stop(self, runs: Sequence[Path]) -> None:
        """Called before: afterwards nobody may know whose children they were."""
        if self._asked_s is None:
            self._asked_s = time.monotonic()
        self._look(runs)

    def is_waited_for(self, runs: Sequence[Path]) -> bool:
        """After the command has ended: whether it was asked to, and some of it train on, or may
        not have had the time to end yet."""
        if self._asked_s is None:
            return False
        self._look_again(runs)
        if not self._living:
            return False
        return time.monotonic() < self._asked_s + _STOP_S or bool(
            _trainers(runs) & set(self._living)
        )

    def complaint(self, runs: Sequence[Path]) -> list[str]:
        """Once, some seconds after they were asked: who has not stopped; else empty."""
        if self._asked_s is None or self._is_said or time.monotonic() < self._asked_s + _STOP_S:
            return []
        self._is_said = True
        self._look(runs)
        if not self._living:
            return []
        return [f"not stopped yet: {_named(self._living)}; Ctrl+C again kills them"]

    def last_words(self, runs: Sequence[Path]) -> list[str]:
        """At the end of a command: who goes on all the same. Of one that nobody asked to stop
        only who trains: what else it leaves in the background is its own affair."""
        self._look(runs)
        trainers = _trainers(runs) if self._asked_s is None else self._living
        living = [pid for pid in self._living if pid in trainers]
        if not living:
            return []
        kill = " ".join(map(str, living[:_MOST]))
        return [f"Still running  {_named(living)}; to end them: kill {kill}"]

    def kill(self, runs: Sequence[Path]) -> None:
        """All of them, and the command, at once."""
        self._look(runs)
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._tree.kill(self._spare)
        self._living = []

    def _look_again(self, runs: Sequence[Path]) -> None:
        if time.monotonic() > self._looked_s + _LOOK_S:
            self._look(runs)

    def _look(self, runs: Sequence[Path]) -> None:
        # One that is about to end has given its lease back already.
        self._spare |= {pid for run_dir in runs for pid in helpers_of(run_dir)}
        for pid in _trainers(runs) - self._spare:
            self._tree.adopt(pid, self._mark)
        self._living = self._tree.living(self._spare)
        self._looked_s = time.monotonic()


def _trainers(runs: Sequence[Path]) -> set[int]:
    """Who holds a lease of theirs, whoever has started it."""
    found: set[int] = set()
    for run_dir in runs:
        with contextlib.suppress(OSError):
            for spool in spools_in(spool_places(read_settings(run_dir), [])):
                with contextlib.suppress(OSError):
                    found.add(owner_pid(spool / LEASE_NAME) or 0)
    return found - {0}


def _named(pids: Sequence[int]) -> str:
    more = f" and {len(pids) - _MOST} more" if len(pids) > _MOST else ""
    return f"pid {', '.join(map(str, pids[:_MOST]))}{more}"
