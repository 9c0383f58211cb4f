"""The control groups of this process, version 1 and 2: where their files are, and reading them.

Only Linux has them; elsewhere nothing is found. Nothing here raises.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import NamedTuple

MEMBERSHIP = Path("/proc/self/cgroup")
MOUNTED = Path("/sys/fs/cgroup")
_MAX_BYTES = 64 * 1024
_MAX_DEPTH = 64


class Group(NamedTuple):
    """``folder``: of the group, or of one above it, relative to where its version is mounted."""

    version: int
    folder: PurePosixPath


def groups(controller: str, membership: Path) -> Iterator[Group]:
    """The groups that this process is in and those above them, which limit it just as well.

    In a container without a namespace of its own a group's path is the host's, and only the
    root is there.
    """
    for row in read(membership).splitlines():
        number, _, rest = row.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            version = 2
        elif controller in controllers.split(","):
            version = 1
        else:
            continue
        parts = [part for part in PurePosixPath(path).parts if part not in ("/", "..")]
        for depth in range(len(parts[:_MAX_DEPTH]), -1, -1):
            yield Group(version, PurePosixPath(*parts[:depth]))


def read(path: Path) -> str:
    """A small file's text, empty for one that cannot be read."""
    with suppress(OSError, ValueError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(descriptor, _MAX_BYTES).decode(errors="replace")
        finally:
            os.close(descriptor)
    return ""


def number(text: str) -> int | None:
    """A decimal number that is not negative; ``None`` for anything else, such as ``max``."""
    text = text.strip()
    return int(text) if text.isdecimal() else None


def field(text: str, name: str) -> int | None:
    """The number beside a name in a table of a row each."""
    for row in text.splitlines():
        key, _, value = row.partition(" ")
        if key == name:
            return number(value)
    return None
