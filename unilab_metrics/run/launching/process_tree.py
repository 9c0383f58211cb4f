"""Ending a command with all that it has started, wherever that has put itself.

The workers of torchrun lead sessions of their own: a signal to the command's group does not reach
them, and they would go on without their agent.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Collection
from pathlib import Path

from unilab_metrics.storage.lease import owner_pid
from unilab_metrics.storage.process_table import stat_fields
from unilab_metrics.transport.rendezvous import aggregator_lease, bus_directory

_PARENT = 1


def kill_tree(pid: int, *, spare: Collection[int]) -> None:
    """SIGKILL to a child of ours that leads a group, to its group, and to its descendants but for
    ``spare`` and theirs. Where the system has no process table, to the group only."""
    found = _descendants(pid, spare)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    for each in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(each, signal.SIGKILL)


def helpers_of(run_dir: Path) -> set[int]:
    """The run's aggregator and writers, which end by themselves and are not to be killed."""
    bus = bus_directory(run_dir)
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for lease in (aggregator_lease(run_dir), *bus.glob("writer-*.lease")):
            with contextlib.suppress(OSError):
                found.add(owner_pid(lease) or 0)
    return found - {0}


def _descendants(pid: int, spare: Collection[int]) -> list[int]:
    children: dict[int, list[int]] = {}
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit() and len(fields := stat_fields(int(name))) > _PARENT:
                children.setdefault(int(fields[_PARENT]), []).append(int(name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), []):
            if child not in spare:
                found.append(child)
                waiting.append(child)
    return found
