"""Ending a command with all that it has started, wherever that has put itself.

The workers of torchrun lead sessions of their own: a signal to the command's group does not reach
them, and they would go on without their agent. The background jobs of a shell script ignore Ctrl+C,
which ends the script: they would go on without it.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from unilab_metrics.storage.lease import owner_pid
from unilab_metrics.storage.process_table import stat_fields
from unilab_metrics.transport.rendezvous import aggregator_lease, bus_directory

_STATE, _PARENT, _SESSION, _START_TICKS = 0, 1, 3, 19
"""Positions in ``stat_fields``."""
_ENDED = frozenset({"Z", "X"})
_ROUNDS = 5
"""What is started while the others are killed is killed in the next one."""


class _Entry(NamedTuple):
    parent: int
    session: int
    started: str
    has_ended: bool


class ProcessTree:
    """A child of ours that leads a session, whoever is in that, and the descendants of both as far
    as they were seen while who had started them was there. Owned by one thread."""

    def __init__(self, pid: int) -> None:
        """``pid``: of the child, which has not been waited for."""
        self._leader = pid
        found = _entry(pid)
        self._known: dict[int, str] = {} if found is None else {pid: found.started}

    def living(self, spare: Collection[int] = ()) -> list[int]:
        """Their pids, but for those of ``spare`` and theirs, in order. Looks at every process of
        this node; empty where the system has no table of them."""
        table = _table()
        # A pid alone names nobody, and nobody leads our session but who has led it before.
        known = {p for p, t in self._known.items() if p in table and table[p].started == t}
        if self._leader not in table or self._leader in known:
            known |= {p for p, entry in table.items() if entry.session == self._leader}
        children: dict[int, list[int]] = {}
        for pid, entry in table.items():
            children.setdefault(entry.parent, []).append(pid)
        found: set[int] = set()
        waiting = [pid for pid in known if pid not in spare]
        while waiting:
            pid = waiting.pop()
            if pid not in found:
                found.add(pid)
                waiting += [child for child in children.get(pid, []) if child not in spare]
        self._known = {pid: table[pid].started for pid in found}
        return sorted(pid for pid in found if not table[pid].has_ended)

    def adopt(self, pid: int, mark: bytes) -> None:
        """Take in a process that was started below us though nobody saw by whom: its environment
        has ``mark``, ``NAME=VALUE`` of a value that is ours alone."""
        entry = _entry(pid)
        if entry is None or pid in self._known or not _has_in_environment(pid, mark):
            return
        # Whoever has the pid by now has another start: that is nobody of ours.
        self._known[pid] = entry.started

    def kill(self, spare: Collection[int] = ()) -> None:
        """SIGKILL to all that live."""
        for _ in range(_ROUNDS):
            for pid in (found := self.living(spare)):
                with contextlib.suppress(OSError):
                    self._kill(pid)
            if not found:
                return

    def _kill(self, pid: int) -> None:
        open_pidfd = getattr(os, "pidfd_open", None)  # Linux only, as the table is
        if open_pidfd is None:
            return
        # Held first and examined then: what has the pid cannot change in between.
        fd = open_pidfd(pid)
        try:
            entry = _entry(pid)
            if entry is not None and self._known.get(pid) == entry.started:
                signal.pidfd_send_signal(fd, signal.SIGKILL)
        finally:
            os.close(fd)


def helpers_of(run_dir: Path) -> set[int]:
    """The run's aggregator and writers, which end by themselves and are not to be killed."""
    bus = bus_directory(run_dir)
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for lease in (aggregator_lease(run_dir), *bus.glob("writer-*.lease")):
            with contextlib.suppress(OSError):
                found.add(owner_pid(lease) or 0)
    return found - {0}


def _has_in_environment(pid: int, mark: bytes) -> bool:
    try:
        return mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _entry(pid: int) -> _Entry | None:
    fields = stat_fields(pid)
    if len(fields) <= _START_TICKS:
        return None
    has_ended = fields[_STATE] in _ENDED
    return _Entry(int(fields[_PARENT]), int(fields[_SESSION]), fields[_START_TICKS], has_ended)


def _table() -> dict[int, _Entry]:
    found: dict[int, _Entry] = {}
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit() and (entry := _entry(int(name))) is not None:
                found[int(name)] = entry
    return found
