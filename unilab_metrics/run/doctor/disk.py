"""Where the run's bytes lie: room, inodes, kind of file system."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from unilab_metrics.run.doctor.finding import ERROR, OK, UNKNOWN, WARNING, Finding
from unilab_metrics.storage.mounts import is_local_filesystem, kind_of
from unilab_metrics.storage.places import runtime_places, spool_candidates
from unilab_metrics.wording import counted

_SUBJECT = "disk"
_MIB = 1024 * 1024
_FULL_BYTES = 16 * _MIB
_SCARCE_BYTES = 256 * _MIB
_FEW_INODES = 256


def examine(run_dir: Path | None) -> Iterator[Finding]:
    """Findings about the run's disk, if there is a run, and about this node's places."""
    seen: set[int] = set()
    if run_dir is not None:
        yield from _place("the run directory", run_dir, seen, is_journal=True)
    for candidate in spool_candidates():
        yield from _place("a place of spools", _existing(candidate), seen)
    for candidate in runtime_places():
        yield from _place("the place of sockets", _existing(candidate), seen)


def _existing(path: Path) -> Path:
    return next((part for part in (path, *path.parents) if part.is_dir()), Path("/"))


def _place(what: str, path: Path, seen: set[int], *, is_journal: bool = False) -> Iterator[Finding]:
    try:
        space, device = os.statvfs(path), path.stat().st_dev
    except OSError as error:
        yield Finding(_SUBJECT, UNKNOWN, f"{path}: {error.strerror}")
        return
    if device in seen:
        return
    seen.add(device)
    kind = kind_of(path) or "unknown kind"
    free = space.f_bavail * space.f_frsize
    where = f"{what} {path} ({kind})"
    if space.f_flag & os.ST_RDONLY:
        yield Finding(
            _SUBJECT, ERROR, f"{where} is mounted read-only", f"mount -o remount,rw {path}"
        )
    elif free < _FULL_BYTES:
        text = f"{where} is full: {free / _MIB:,.1f} MiB free"
        yield Finding(_SUBJECT, ERROR, text, f"make room there: du -xh {path} | sort -h | tail")
    elif space.f_files and space.f_favail < _FEW_INODES:
        text = f"{where} has {counted(space.f_favail, 'inode')} left"
        yield Finding(_SUBJECT, ERROR, text, "remove files there")
    elif free < _SCARCE_BYTES:
        yield Finding(_SUBJECT, WARNING, f"{where} has {free / _MIB:,.0f} MiB free")
    else:
        yield Finding(_SUBJECT, OK, f"{where} has {free / 1024**3:,.1f} GiB free")
    if not is_local_filesystem(path):
        text = f"{where} is no local file system: locks and syncs there are slow or missing"
        fix = "train into a local directory" if is_journal else "set UNILAB_METRICS_SPOOL"
        yield Finding(_SUBJECT, WARNING, text, fix)
