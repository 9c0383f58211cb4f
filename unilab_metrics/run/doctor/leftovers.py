"""What runs that are gone have left on this node."""

from __future__ import annotations

import os
import shlex
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from unilab_metrics.run.doctor.finding import OK, WARNING, Finding
from unilab_metrics.run.launch_file import find_run
from unilab_metrics.storage.lease import is_free
from unilab_metrics.storage.places import held_bytes, runtime_places, spool_candidates
from unilab_metrics.storage.spool_places import spools_in
from unilab_metrics.storage.spool_reader import LEASE_NAME, SpoolReader
from unilab_metrics.transport.ipc import listener_pid

_SUBJECT = "leftovers"
_MIB = 1024 * 1024
_OLD_S = 3600.0


def examine(own_places: list[Path], *, in_short: bool = False) -> Iterator[Finding]:
    """``own_places``: the examined run's, which are the backlog's subject. ``in_short``: one
    warning for everything, its parts as details."""
    found = [*_sockets(), *_spools(own_places), *_temporary()]
    if not found:
        yield Finding(_SUBJECT, OK, "nothing of other runs is left behind")
    elif not in_short:
        yield from found
    else:
        count = "1 thing" if len(found) == 1 else f"{len(found)} things"
        text = f"other runs have left {count} behind on this node; this run is not affected"
        yield Finding(_SUBJECT, WARNING, text, "the same with -v names them")
        yield from (finding._replace(level=OK) for finding in found)


def _sockets() -> Iterator[Finding]:
    for directory in runtime_places():
        if not directory.is_dir():
            continue
        for path in sorted(directory.iterdir()):
            status = path.lstat()
            if stat.S_ISSOCK(status.st_mode) and listener_pid(os.fspath(path)) is None:
                text = f"{path}: a socket at which nobody listens"
                yield Finding(_SUBJECT, WARNING, text, "the next aggregator removes it")


def _spools(own_places: list[Path]) -> Iterator[Finding]:
    for root in spool_candidates():
        if not root.is_dir() or root.is_symlink():
            continue
        for launch in sorted(root.iterdir()):
            if launch in own_places or not launch.is_dir():
                continue
            dead = [path for path in spools_in([launch]) if _is_dead(path)]
            if not dead:
                continue
            size = sum(map(held_bytes, dead)) / _MIB
            identity = SpoolReader(dead[0]).identity
            what = f" of {identity.run.algorithm or 'a run'}" if identity is not None else ""
            count, whose = "1 spool of a dead process", "it belongs"
            if len(dead) > 1:
                count, whose = f"{len(dead)} spools of dead processes", "they belong"
            text = f"{launch}: {count}{what}, {size:,.1f} MiB"
            run_dir = _run_of(launch.name)
            fix = (
                f"unilab-metrics recover RUN_DIR   (of the run that {whose} to; on a node that does "
                "not see it, the launch's next attempt takes them in)"
                if run_dir is None
                else f"unilab-metrics recover {shlex.quote(os.fspath(run_dir))}"
            )
            yield Finding(_SUBJECT, WARNING, text, fix)


def _run_of(launch: str) -> Path | None:
    # Asking makes the directory in which it would be written down.
    is_there = any(place.is_dir() for place in runtime_places())
    return find_run(launch, of_dead_rank_0=True) if is_there else None


def _is_dead(spool: Path) -> bool:
    return (spool / LEASE_NAME).exists() and is_free(spool / LEASE_NAME)


def _temporary() -> Iterator[Finding]:
    """Files that a killed process was making; old ones, because a live one may be at it."""
    for directory in runtime_places():
        for path in sorted(directory.glob(".*")) if directory.is_dir() else ():
            if time.time() - path.lstat().st_mtime > _OLD_S:
                yield Finding(_SUBJECT, WARNING, f"{path}: never finished", f"rm {path}")
