"""The memory that a container may have, where one limits it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from unilab_metrics.node.control_groups import MEMBERSHIP, MOUNTED, field, groups, number, read


class MemoryLimit(NamedTuple):
    """``used_bytes``: without file pages that the kernel gives back on demand."""

    used_bytes: int
    total_bytes: int


class _Files(NamedTuple):
    mount: str
    limit: str
    usage: str
    inactive: str


_FILES = {
    1: _Files("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: _Files("", "memory.max", "memory.current", "inactive_file"),
}


def memory_limit(
    most_bytes: int, *, membership: Path = MEMBERSHIP, mounted: Path = MOUNTED
) -> MemoryLimit | None:
    """The tightest limit below ``most_bytes`` of all groups that this process is in, ``None``
    without any. Never raises."""
    tightest: MemoryLimit | None = None
    for group in groups("memory", membership):
        files = _FILES[group.version]
        folder = mounted / files.mount / group.folder
        limit = number(read(folder / files.limit))
        if limit is None or not 0 < limit < most_bytes:
            continue
        usage = number(read(folder / files.usage))
        if usage is None:
            continue
        inactive = field(read(folder / "memory.stat"), files.inactive) or 0
        most_bytes = limit
        tightest = MemoryLimit(max(usage - inactive, 0), limit)
    return tightest
