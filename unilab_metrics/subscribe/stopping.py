"""Asks a training to stop, as Ctrl+C in its terminal would: nobody but those who were asked to.

Only the learners that this very node runs are signalled, each told by its own Identity: its pid, in
its pid namespace, of a process that already ran when that Identity was written, and that has the
lease of the spool open in which the Identity lies.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import msgspec

from unilab_metrics.errors import StorageError
from unilab_metrics.storage.orphans import runs_here
from unilab_metrics.storage.process_table import has_open, is_running
from unilab_metrics.storage.spool_reader import LEASE_NAME, SpoolReader
from unilab_metrics.subscribe.abandoned import spools_of
from unilab_schema.identity import LEARNER, Identity

STOP_S = 6.0
"""A training that has not ended by then is said to be at work."""
_ELSEWHERE = "no learner of this run is on this node; stop it there, or with its launcher"


class Stopping:
    """Asks a training to stop, and says once whom that did not end. Owned by one thread."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._asked: list[tuple[int, int]] = []
        self._asked_s = 0.0

    def ask(self) -> str:
        """Sends SIGINT to each learner of the run on this node, once. Returns what was done, or why
        nothing was, in one sentence. Never raises."""
        text, pids = _ask(self._run_dir)
        now_ns = time.monotonic_ns()
        self._asked = [(pid, now_ns) for pid in pids]
        self._asked_s = time.monotonic()
        return text

    def goes_on(self) -> str | None:
        """Who of them has not ended some seconds later, empty for nobody; ``None`` before."""
        if time.monotonic() < self._asked_s + STOP_S:
            return None
        pids = [pid for pid, asked_ns in self._asked if is_running(pid, asked_ns)]
        if not pids:
            return ""
        shown = ", ".join(map(str, pids))
        return f"not stopped yet: pid {shown}; background jobs of a script ignore Ctrl+C"


def _ask(run_dir: Path) -> tuple[str, list[int]]:
    try:
        directories = spools_of(run_dir)
    except (OSError, ValueError, StorageError, msgspec.MsgspecError, RecursionError):
        text = (
            "not stopped: the run's files are not here; stop it on its node, or with its launcher"
        )
        return text, []
    asked: list[int] = []
    failed: list[str] = []
    for directory in directories:
        identity = _identity(directory)
        if identity is None or identity.key.role != LEARNER or not runs_here(identity):
            continue
        try:
            if identity.pid not in asked and _interrupt(identity, directory / LEASE_NAME):
                asked.append(identity.pid)
        except OSError as error:
            failed.append(f"pid {identity.pid}: {error.strerror or error}")
    if not asked:
        return f"not stopped: {', '.join(failed) or _ELSEWHERE}", []
    done = f"asked to stop, as by Ctrl+C: pid {', '.join(map(str, sorted(asked)))}"
    return f"{done}; not stopped: {', '.join(failed)}" if failed else done, sorted(asked)


def _identity(directory: Path) -> Identity | None:
    try:
        return SpoolReader(directory).identity
    except (OSError, StorageError):
        return None


def _interrupt(identity: Identity, lease: Path) -> bool:
    """Whether the very process was there. Raises ``OSError``."""
    open_pidfd = getattr(os, "pidfd_open", None)  # Linux only
    if open_pidfd is None:
        return False
    try:
        # Held first and examined then: what has the pid cannot change in between.
        fd = open_pidfd(identity.pid)
    except ProcessLookupError:
        return False
    try:
        # An Identity that names another's pid, and a time that is late enough, is quickly written.
        # No other process has the lease of the spool open.
        is_meant = is_running(identity.pid, identity.started_mono_ns)
        if not is_meant or not has_open(identity.pid, lease):
            return False
        signal.pidfd_send_signal(fd, signal.SIGINT)
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
    return True
