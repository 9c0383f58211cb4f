"""Named places at which a process of ours fails on purpose; for the tests of its promises.

``UNILAB_METRICS_CRASH_POINTS`` arms them for a process and its children, as words of the form
``NAME[@N][xK][:ACTION]``: from the N-th pass of a process on (1), at most K times (1), do
ACTION (``kill``). ``UNILAB_METRICS_CRASH_TOKENS`` names a directory in which the K times are
counted over all processes, one file ``NAME-I`` each; without it each process counts alone.
So ``aggregator.committed@3x2`` kills the aggregator after its third commit, and its successor
too, but not the third one. Without the variable nothing is read and ``armed`` stays false.

Actions: ``kill`` (SIGKILL to itself), ``stop`` (SIGSTOP to itself; goes on after SIGCONT),
``hang`` (the thread that comes by goes no further, the others go on), ``eio`` and ``enospc``
(the ``OSError`` that a disk gives). At the points marked "write" a kill, a stop and a hang come
when one half of the data is written; an error comes before any of it.

=============================== ===========================================================
publisher.append (write)         a record of the spool
publisher.appended               a record is in the spool and counted
publisher.rotated                a new spool segment is there, and nothing but its preamble in it
publisher.trimming               before the deletion of a durable segment
publisher.ending                 before the end record
aggregator.received              a batch with records is checked, and not folded yet
aggregator.wal (write)           the wal's part of a commit; first pass: a segment's header
aggregator.wal_written           between the wal's and the history's part of a commit
aggregator.history (write)       the history's part of a commit; first pass: a segment's header
aggregator.blocks (write)        summaries of closed history
aggregator.committed             a commit is in both files; nothing is answered or announced
aggregator.syncing               before an fdatasync, in the thread that does them
aggregator.synced                a sync has finished; nobody knows yet
aggregator.announced             a head is sent
aggregator.segment_created       a new wal or history segment with its header
aggregator.snapshot_written      a new wal segment's snapshot is written
aggregator.segment_deleted       an obsolete wal segment is gone
writer.fetched                   records of the history are read, and not written yet
writer.file_created              an event file is there, empty
writer.header (write)            the first write into an event file
writer.events (write)            a later one: the events of some updates and their mark
writer.flushed                   events and mark are in the file
=============================== ===========================================================
"""

from __future__ import annotations

import errno
import os
import re
import signal
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

POINTS_VARIABLE = "UNILAB_METRICS_CRASH_POINTS"
TOKENS_VARIABLE = "UNILAB_METRICS_CRASH_TOKENS"

_WORD = re.compile(
    r"(?P<name>[a-z_.]+)(@(?P<first>\d+))?(x(?P<times>\d+))?(:(?P<action>kill|stop|hang|eio|enospc))?"
)
_ERRORS = {"eio": errno.EIO, "enospc": errno.ENOSPC}
# Which files of records are written at which point, by the start of their names.
_FILES = {
    "wal-": "aggregator.wal",
    "history-": "aggregator.history",
    "blocks-": "aggregator.blocks",
    "events.": "writer.events",
}


class _Passes(Protocol):
    def __next__(self) -> int: ...


@dataclass(frozen=True)
class CrashPoint:
    """One armed point. ``first``: the pass from which it acts, ``times``: how often at most."""

    name: str
    first: int = 1
    times: int = 1
    action: str = "kill"
    passes: _Passes = field(default_factory=lambda: count(1), compare=False)
    spent: list[int] = field(default_factory=list[int], compare=False)


def parse(text: str) -> dict[str, CrashPoint]:
    """The points that a variable's text arms. Raises ``ValueError`` for another text."""
    points: dict[str, CrashPoint] = {}
    for word in text.split():
        found = _WORD.fullmatch(word)
        if found is None or found["name"] not in names():
            raise ValueError(f"{word!r} is no crash point")
        points[found["name"]] = CrashPoint(
            found["name"],
            int(found["first"] or 1),
            int(found["times"] or 1),
            found["action"] or "kill",
        )
    return points


def names() -> list[str]:
    """Every point, in the order of the list above."""
    return re.findall(r"^((?:publisher|aggregator|writer)\.\w+)", __doc__ or "", re.MULTILINE)


def reach(name: str) -> None:
    """Pass a point; ask ``armed`` before. May never return, and may raise ``OSError``."""
    point = _points.get(name)
    if point is not None and _is_due(point):
        _act(point)


def write(name: str, fd: int, data: bytes) -> None:
    """Pass a point just before ``data`` is written to ``fd``."""
    point = _points.get(name)
    if point is None or not _is_due(point):
        return
    if point.action in _ERRORS:
        _act(point)
    half = len(data) // 2
    os.write(fd, data[:half])
    _act(point)
    if half:
        # Continued after a stop: the caller writes the whole, as if nothing had been written.
        os.ftruncate(fd, os.fstat(fd).st_size - half)


def write_file(path_name: str, fd: int, data: bytes, size_bytes: int) -> None:
    """Pass the point of a file of records, of ``size_bytes`` up to now, before a write."""
    for start, name in _FILES.items():
        if path_name.startswith(start):
            is_new_file = name == "writer.events" and not size_bytes
            write("writer.header" if is_new_file else name, fd, data)


def _is_due(point: CrashPoint) -> bool:
    if next(point.passes) < point.first:
        return False
    if not _tokens:
        point.spent.append(1)
        return len(point.spent) <= point.times
    return any(_take_token(f"{point.name}-{number}") for number in range(1, point.times + 1))


def _take_token(name: str) -> bool:
    try:
        os.close(os.open(os.path.join(_tokens, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:
        return False
    return True


def _act(point: CrashPoint) -> None:
    if point.action in _ERRORS:
        number = _ERRORS[point.action]
        raise OSError(number, f"{os.strerror(number)} (crash point {point.name})")
    if point.action == "hang":
        threading.Event().wait()
    if point.action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
        return
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)  # pragma: no cover (from another thread the signal may take a moment)


def _armed_by(environ: Mapping[str, str]) -> dict[str, CrashPoint]:
    text = environ.get(POINTS_VARIABLE)
    if not text:
        return {}
    try:
        return parse(text)
    except ValueError:
        # A training does not end because of a test's typing error; the test misses its token.
        return {}


def used(tokens: Iterable[str]) -> dict[str, int]:
    """How often each point has acted, from the names in the token directory."""
    counts: dict[str, int] = {}
    for token in tokens:
        name = token.rpartition("-")[0]
        counts[name] = counts.get(name, 0) + 1
    return counts


_points = _armed_by(os.environ)
_tokens = os.environ.get(TOKENS_VARIABLE, "") if _points else ""
armed = bool(_points)
"""Whether this process has any point; asked before each call of :func:`reach`."""
