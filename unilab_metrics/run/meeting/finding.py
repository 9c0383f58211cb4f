"""Which launch this process belongs to, and where that launch's bus is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from unilab_metrics.errors import ConnectionFileError
from unilab_metrics.run.meeting.inheritance import Inherited
from unilab_metrics.run.meeting.launch_file import find_run, parent_of, process_name, this_node
from unilab_metrics.run.meeting.launch_key import (
    TORCHRUN_VARIABLE,
    ProcessName,
    alone_key,
    run_key,
    siblings_key,
)
from unilab_metrics.run.meeting.ranks import Place
from unilab_metrics.transport import rendezvous
from unilab_metrics.transport.rendezvous import ConnectionFile, DistantBus, bus_directory

_IN_VAIN_AFTER_S = 5.0
_STREAK_ENDS_S = 3.0

FindElsewhere = Callable[[], ConnectionFile | None]
"""A way to the aggregator by other means than files; never raises, never waits."""


def launch_of_rank(
    environ: Mapping[str, str],
    place: Place,
    inherited: Inherited,
    run_dir: Path | None,
    opened: int,
) -> str:
    """The launch key of a rank that calls ``init()``. ``run_dir``: if it is known already.
    ``opened``: how many runs this process has opened before."""
    given = _given(inherited, run_dir)
    if given is not None:
        return given
    pid = os.getpid()
    return _derived(environ, place.world_size, pid, os.getppid(), opened)


def launch_of_child(
    environ: Mapping[str, str], place: Place, inherited: Inherited, run_dir: Path | None
) -> str:
    """The launch key of a process that calls ``connect()``: that of its parent, which may call
    ``init()`` later than it starts children."""
    given = _given(inherited, run_dir)
    if given is not None:
        return given
    parent = os.getppid()
    return _derived(environ, place.world_size, parent, parent_of(parent), 0)


def run_to_go_on_with(environ: Mapping[str, str], launch: str) -> Path | None:
    """The run of a rank 0 that the same launcher has started again after a failure.

    Only torchrun does that, and its agent is the parent of no other launch.
    """
    if TORCHRUN_VARIABLE not in environ:
        return None
    return find_run(launch, of_dead_rank_0=True)


def restarting_launcher(environ: Mapping[str, str]) -> ProcessName | None:
    """The launcher of this rank, if it is one that starts the ranks again after a failure."""
    return process_name(os.getppid()) if TORCHRUN_VARIABLE in environ else None


class BusFinder:
    """Finds the connection file, for the shipper thread that asks until there is one."""

    def __init__(
        self,
        run_dir: Path | None,
        launch: str,
        elsewhere: FindElsewhere | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``elsewhere``: knows it where the run directory cannot be seen; may be asked often."""
        self.run_dir = run_dir
        self._launch = launch
        self._elsewhere = elsewhere
        self._clock = clock
        self._searching_since_s = 0.0
        self._asked_s = -_STREAK_ENDS_S

    def __call__(self) -> ConnectionFile | None:
        """Cheap; never raises. ``None`` while rank 0 has not opened the run, and while its
        aggregator has not begun to listen."""
        seen = self._read()
        if self._elsewhere is None or (seen is not None and not self._is_in_vain()):
            return seen
        found = self._elsewhere()
        if found is None:
            return seen
        if not isinstance(found, DistantBus):
            self.run_dir = Path(found.run_dir)
        return found

    def _read(self) -> ConnectionFile | None:
        if self.run_dir is None:
            self.run_dir = find_run(self._launch)
            if self.run_dir is None:
                return None
        try:
            found = rendezvous.read(bus_directory(self.run_dir))
        except ConnectionFileError:
            return None
        # Another node may have mounted it elsewhere.
        return msgspec.structs.replace(found, run_dir=os.fspath(self.run_dir))

    def _is_in_vain(self) -> bool:
        # Who has found the aggregator asks no more. A connection file may be left over from an
        # attempt that had its rank 0 on this node.
        now_s = self._clock()
        if now_s - self._asked_s >= _STREAK_ENDS_S:
            self._searching_since_s = now_s
        self._asked_s = now_s
        return now_s - self._searching_since_s >= _IN_VAIN_AFTER_S


def _given(inherited: Inherited, run_dir: Path | None) -> str | None:
    if inherited.launch and run_dir in {None, inherited.run_dir}:
        return inherited.launch
    return None if run_dir is None else run_key(this_node(), run_dir.resolve())


def _derived(
    environ: Mapping[str, str], world_size: int, pid: int, parent: int, opened: int
) -> str:
    # torchrun may start even a single rank again, as another process of the same agent.
    if world_size == 1 and TORCHRUN_VARIABLE not in environ:
        return alone_key(this_node(), process_name(pid), opened)
    return siblings_key(this_node(), process_name(parent), environ, world_size, opened)
