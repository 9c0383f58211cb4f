"""Spools whose run directory was removed: nobody will come for them, and they take room.

What can still be delivered is never removed. The run may have been moved, and ``recover`` on its
new place would find them, so a week must have passed since the last word of their process. A run
whose disk is not mounted is not taken for removed, and a spool that does not say whose it is
stays.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from unilab_metrics.storage import lease
from unilab_metrics.storage.orphans import is_abandoned, remove_spool, runs_here
from unilab_metrics.storage.places import held_bytes
from unilab_metrics.storage.spool_owner import decode_owner
from unilab_metrics.storage.spool_reader import LEASE_NAME, SpoolReader

KEPT_S = 7 * 24 * 3600.0


class Swept(NamedTuple):
    """A spool that was removed, of the run that lay at ``run_dir``."""

    directory: Path
    run_dir: str
    bytes: int

    def __str__(self) -> str:
        size = self.bytes / (1024 * 1024)
        return (
            f"removed {self.directory} ({size:.1f} MiB): its run {self.run_dir} was removed, and "
            "its process has been gone for a week"
        )


def sweep_removed_runs(roots: Iterable[Path], *, kept_s: float = KEPT_S) -> list[Swept]:
    """Remove them from these places for spools, each of which holds the directories of launches,
    and these the spools. Only files with a spool's names are deleted. Never raises."""
    return [
        Swept(directory, run_dir, size)
        for directory, run_dir in _removed(roots, kept_s)
        if (size := _remove(directory)) is not None
    ]


def _removed(roots: Iterable[Path], kept_s: float) -> Iterator[tuple[Path, str]]:
    for launch in _directories_in(roots):
        for directory in _directories_in([launch]):
            with suppress(OSError):
                run_dir = _run_of(directory)
                if run_dir is not None and age_s(directory) > kept_s and is_abandoned(directory):
                    yield directory, run_dir


def _directories_in(parents: Iterable[Path]) -> Iterator[Path]:
    for parent in parents:
        with suppress(OSError):
            if parent.is_symlink() or parent.lstat().st_uid != os.geteuid():
                continue
            for name in sorted(os.listdir(parent)):
                path = parent / name
                if path.is_dir() and not path.is_symlink():
                    yield path


def _run_of(directory: Path) -> str | None:
    """The path of its run, if that was removed."""
    owner = decode_owner(lease.read_owner(directory / LEASE_NAME) or b"")
    if owner is None or owner.run is None or not owner.run.was_removed():
        return None
    return owner.run.path


def age_s(directory: Path) -> float:
    """Seconds since something was written into a spool last. Raises ``OSError``."""
    newest = max(path.lstat().st_mtime for path in (directory, *directory.iterdir()))
    return time.time() - newest


def _remove(directory: Path) -> int | None:
    """The bytes that it held; ``None`` if it was not removed."""
    try:
        identity = SpoolReader(directory).identity
        if identity is not None and runs_here(identity):
            return None
        held = lease.take(directory / LEASE_NAME)
        if held is None:
            return None
        size = held_bytes(directory)
        remove_spool(directory)
        held.release(unlink=False)
        with suppress(OSError):
            directory.parent.rmdir()
    except OSError:
        return None
    return None if directory.exists() else size
