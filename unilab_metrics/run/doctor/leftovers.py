"""What runs that are gone have left on this node."""

from __future__ import annotations

import os
import shlex
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from unilab_metrics.run.doctor import left_spools
from unilab_metrics.run.doctor.finding import INFO, OK, WARNING, Finding
from unilab_metrics.storage.places import runtime_places
from unilab_metrics.transport.ipc import is_removed_with_others, listener_pid
from unilab_metrics.wording import counted

_SUBJECT = "leftovers"
_OLD_S = 3600.0


def examine(own_places: list[Path], *, in_short: bool = False) -> Iterator[Finding]:
    """``own_places``: the examined run's, which are the backlog's subject. ``in_short``: one
    warning for everything, its parts as details."""
    found = [*_sockets(), *_temporary(), *left_spools.examine(own_places)]
    if not found:
        yield Finding(_SUBJECT, OK, "nothing of other runs is left behind")
        return
    if in_short:
        count = counted(len(found), "thing")
        text = f"other runs have left {count} behind on this node; this run is not affected"
        yield Finding(_SUBJECT, WARNING, text, "the same with -v names them")
        found = [finding._replace(level=INFO, is_detail=True) for finding in found]
    yield from found
    for finding in left_spools.total(own_places):
        yield finding._replace(is_detail=in_short)


def _sockets() -> Iterator[Finding]:
    places = runtime_places()
    for directory in places:
        if not directory.is_dir():
            continue
        for path in sorted(directory.iterdir()):
            status = path.lstat()
            if stat.S_ISSOCK(status.st_mode) and listener_pid(os.fspath(path)) is None:
                text = f"{path}: a socket at which nobody listens"
                # An aggregator looks only where it has its own sockets.
                is_removed = directory == places[0] and is_removed_with_others(os.fspath(path))
                fix = "the next aggregator removes it" if is_removed else _removal(path)
                yield Finding(_SUBJECT, WARNING, text, fix)


def _temporary() -> Iterator[Finding]:
    """Files that a killed process was making; old ones, because a live one may be at it."""
    for directory in runtime_places():
        for path in sorted(directory.glob(".*")) if directory.is_dir() else ():
            if time.time() - path.lstat().st_mtime > _OLD_S:
                yield Finding(_SUBJECT, WARNING, f"{path}: never finished", _removal(path))


def _removal(path: Path) -> str:
    return f"rm {shlex.quote(os.fspath(path))}"
