"""Spools of dead processes: where they lie and how they are removed.

A spool may belong to a source that we know, or to a process that was killed before it ever
reached us; the identity at the start of its segments names it either way. Only directories
directly below the launch's own spool directories are ever looked at, and only files with a
spool's names are ever deleted: the path in an identity comes from another process. A spool that
was copied from another node is known by its name, which is its process's incarnation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from unilab_metrics.storage.orphans import is_abandoned, runs_here
from unilab_metrics.storage.spool_reader import SpoolReader
from unilab_schema.identity import Identity


class Orphan(NamedTuple):
    """A spool directory whose process is gone."""

    directory: Path
    identity: Identity


class SpoolDirectories:
    """The launch's spool directories: the only places where spools are read or removed."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self.roots = [root for root in roots if root.is_absolute()]

    def spool_of(self, identity: Identity) -> Path | None:
        """The spool that an identity names, or a copy of it, if it lies where the launch's
        spools lie."""
        path = Path(identity.spool_path)
        is_named = path.is_absolute() and ".." not in path.parts and path.parent in self.roots
        if is_named and _is_directory(path):
            return path
        name = identity.incarnation.hex()
        copies = (root / name for root in self.roots if name)
        return next((copy for copy in copies if _is_directory(copy)), None)

    def orphans(self, known: set[Path]) -> Iterator[Orphan]:
        """Spools whose lease is free, except the ``known`` ones, and those of processes whose
        place one that lives had before them: it is on its way, and comes first."""
        dead: list[Orphan] = []
        living: list[Path] = []
        for root in self.roots:
            try:
                directories = [entry for entry in root.iterdir() if entry.is_dir()]
            except OSError:
                continue
            for directory in directories:
                if directory in known:
                    continue
                if not is_abandoned(directory):
                    living.append(directory)
                    continue
                identity = SpoolReader(directory).identity
                if identity is not None and not runs_here(identity):
                    dead.append(Orphan(directory, identity))
        if dead:
            alive = [one for path in living if (one := SpoolReader(path).identity) is not None]
            yield from (one for one in dead if not any(_was_before(x, one.identity) for x in alive))

    def remove_empty(self) -> None:
        """Remove the spool directories themselves where nothing is left in them."""
        for root in self.roots:
            with suppress(OSError):
                root.rmdir()


def _was_before(identity: Identity, other: Identity) -> bool:
    is_same_place = identity.key == other.key and identity.boot_id == other.boot_id
    return is_same_place and identity.started_mono_ns < other.started_mono_ns


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
