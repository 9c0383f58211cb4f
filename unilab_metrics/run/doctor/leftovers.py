"""What runs that are gone have left on this node."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from unilab_metrics.run.doctor.finding import OK, WARNING, Finding
from unilab_metrics.run.spool_places import spools_in
from unilab_metrics.storage.filesystem import held_bytes, runtime_places, spool_candidates
from unilab_metrics.storage.lease import is_free
from unilab_metrics.storage.spool_reader import LEASE_NAME, SpoolReader
from unilab_metrics.transport.ipc import listener_pid

_SUBJECT = "leftovers"
_MIB = 1024 * 1024
_OLD_S = 3600.0


def examine(own_places: list[Path]) -> Iterator[Finding]:
    """``own_places``: the examined run's, which are the backlog's subject."""
    count = 0
    for finding in (*_sockets(), *_spools(own_places), *_temporary()):
        count += 1
        yield finding
    if not count:
        yield Finding(_SUBJECT, OK, "nothing of other runs is left behind")


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
            text = f"{launch}: {len(dead)} spools of dead processes{what}, {size:,.1f} MiB"
            fix = "unilab-metrics recover RUN_DIR of the run that they belong to"
            yield Finding(_SUBJECT, WARNING, text, fix)


def _is_dead(spool: Path) -> bool:
    return (spool / LEASE_NAME).exists() and is_free(spool / LEASE_NAME)


def _temporary() -> Iterator[Finding]:
    """Files that a killed process was making; old ones, because a live one may be at it."""
    for directory in runtime_places():
        for path in sorted(directory.glob(".*")) if directory.is_dir() else ():
            if time.time() - path.lstat().st_mtime > _OLD_S:
                yield Finding(_SUBJECT, WARNING, f"{path}: never finished", f"rm {path}")
