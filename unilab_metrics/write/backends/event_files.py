"""Event files in a run directory: names, the newest of ours, cutting, creating."""

from __future__ import annotations

import os
import re
import secrets
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from unilab_metrics.storage.bounded_reading import open_regular
from unilab_metrics.storage.segments import SegmentWriter
from unilab_metrics.write.backends.event_encoding import read_mark
from unilab_metrics.write.backends.event_records import (
    HEADER_BYTES,
    EventRecord,
    record_end,
    scan,
)
from unilab_metrics.write.position import Position

SUFFIX = ".unilab"
"""Ends the names of our files; TensorBoard looks for ``tfevents`` anywhere in a name."""
_ANY = "tfevents"
_PREFIX = "events.out.tfevents."
_SECONDS = re.compile(re.escape(_PREFIX) + r"(\d+)")
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")
_MAX_HOST_CHARACTERS = 64
_CHUNK_BYTES = 4 * 1024 * 1024
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class Marked(NamedTuple):
    """What an event file holds up to its last mark.

    ``end``: offset behind the mark; without one (``position`` is ``None``) behind the first
    record, which says the file's version. ``size_bytes``: of the whole file.
    """

    position: Position | None
    end: int
    size_bytes: int


def own_files(directory: Path) -> list[Path]:
    """Our event files, oldest first, which is the order in which readers read them."""
    return [directory / name for name in _names(directory) if name.endswith(SUFFIX)]


def read_records(path: Path) -> Iterator[EventRecord]:
    """The whole records of a file up to the first damage; offsets are the file's.

    A record's data is valid until the next record is asked for.
    """
    with os.fdopen(open_regular(path), "rb") as file:
        start = 0
        held = b""
        while True:
            chunk = file.read(_CHUNK_BYTES)
            if not chunk:
                return
            held += chunk
            records, valid = scan(held)
            for record in records:
                yield EventRecord(start + record.start, start + record.end, record.data)
            start += valid
            held = held[valid:]
            if len(held) >= HEADER_BYTES:
                end = record_end(memoryview(held), 0)
                if end is None or end <= len(held):
                    return


def find_mark(path: Path, counts: Callable[[Position], bool] = lambda _: True) -> Marked:
    """Reads the whole file; ``counts``: whether a mark does. Raises ``OSError``."""
    position: Position | None = None
    end = 0
    for number, record in enumerate(read_records(path)):
        mark = read_mark(record.data)
        if mark is not None and not counts(mark):
            continue
        if mark is not None:
            position = mark
        if mark is not None or number == 0:
            end = record.end
    return Marked(position, end, path.stat().st_size)


def create_file(directory: Path, unix_s: int) -> SegmentWriter:
    """A new, empty event file that no other process can get and that readers read last.

    TensorBoard reads files in the order of their names and does not go back, so the name is
    beyond the newest one also when the clock was set back. The mode follows the umask, for
    TensorBoards of other users. Raises ``OSError``.
    """
    while True:
        path = directory / next_name(_names(directory), unix_s)
        try:
            return SegmentWriter(path, os.open(path, _FLAGS, 0o666))
        except FileExistsError:
            continue


def next_name(existing: list[str], unix_s: int) -> str:
    """A name with at least ``unix_s`` seconds that sorts behind every existing one."""
    host = _UNFIT.sub("-", socket.gethostname())[:_MAX_HOST_CHARACTERS] or "host"
    rest = f".{host}.{os.getpid()}.{secrets.token_hex(6)}{SUFFIX}"
    name = f"{_PREFIX}{unix_s:010d}{rest}"
    if existing and name <= existing[-1]:
        found = _SECONDS.match(existing[-1])
        if found is not None:
            # The same number of digits, or the text would not sort as the number does.
            later = f"{int(found[1]) + 1:0{len(found[1])}d}"
            name = f"{_PREFIX}{later}{rest}"
    return name


def _names(directory: Path) -> list[str]:
    return sorted(name for name in os.listdir(directory) if _ANY in name)
