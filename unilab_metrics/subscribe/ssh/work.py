"""Whether anybody is at work on a run of another machine, by what its ``sh`` can tell. Pure.

Two things have to speak for it that a process is gone: nobody holds the lock of its lease, and its
pid is free or another's. What cannot be told is no end of a run.
"""

from __future__ import annotations

import re

import msgspec

from unilab_metrics.errors import ConnectionFileError
from unilab_metrics.storage.records import scan
from unilab_metrics.subscribe.abandoned import decode_launches, names, was_on
from unilab_metrics.subscribe.ssh.report import Holder, Report, Spool
from unilab_metrics.transport import rendezvous
from unilab_metrics.transport.rendezvous import ConnectionFile
from unilab_schema.codec import FrameDecodeError, RecordKind, decode_payload
from unilab_schema.identity import Identity

_ALL_PIDS = 0xEFFFFFFC
"""The namespace in which a Linux machine begins: all locks and processes can be seen there."""
_MOST_PLACES = 64
_STATE, _START_TICKS, _TICKS_PER_S = 0, 19, 100
_SLACK_S = 60.0
"""Of wall clocks that are set; a start by the machine's own clock is exact."""
_BY_BOOT_SLACK_S = 1.0
_INODE = re.compile(r"\[(\d+)\]")


def places(settings: bytes | None) -> tuple[str, ...] | None:
    """Directories in which processes of the run may have their spools, as its settings say; ``None``
    if these are damaged, so that nobody knows where."""
    try:
        launches = decode_launches(b"{}" if settings is None else settings)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return tuple(path for path in launches.spools if path.startswith("/"))[:_MOST_PLACES]


def who_is_gone(report: Report, known_life: tuple[int, int] | None) -> tuple[str, ...] | None:
    """Who is gone, by name, if nobody on that machine is at work on the run; else ``None``, also
    where that cannot be told. ``known_life``: of an aggregator that was heard on it."""
    connection = _connection(report)
    if _leads(report.aggregator, connection, report.clock):
        return None
    gone: list[Identity] = []
    for spool in report.spools:
        identity = _identity(spool)
        if _is_at_work(spool.holder, identity, report):
            return None
        if identity is not None:
            gone.append(identity)
    life = None if connection is None else (connection.pid, connection.started_unix_ns)
    was_here = life is not None and life == known_life
    was_here = was_here or was_on(connection, gone, boot_id=report.boot_id, host=report.host)
    if was_here or (connection is None and report.has_journal):
        return names(connection, gone)
    return None


def _leads(holder: Holder, connection: ConnectionFile | None, clock: str) -> bool:
    if holder.lock == "held":
        return True
    started_unix_ns = connection.started_unix_ns if connection is not None else None
    return holder.running is not None and not _is_other(
        holder.running, clock, started_unix_ns, None
    )


def _is_at_work(holder: Holder, identity: Identity | None, report: Report) -> bool:
    """Whether it is, or may be."""
    if holder.lock == "held":
        return True
    if identity is None:
        return holder.running is not None
    if identity.boot_id != report.boot_id:
        return False
    found = _INODE.search(report.pids)
    space = int(found[1]) if found else 0
    if identity.pid_space and identity.pid_space != space:
        # Of another container: only who sees all can say that nobody holds its lock.
        return space != _ALL_PIDS
    if not identity.pid_space and identity.host != report.host:
        return True
    return holder.running is not None and not _is_other(
        holder.running, report.clock, identity.started_unix_ns, identity.started_mono_ns
    )


def _is_other(running: str, clock: str, unix_ns: int | None, mono_ns: int | None) -> bool:
    """Whether the process that has this pid now is none that has ever worked at it, because it
    has ended or began later. Both clocks have to say so: wall clocks are set, and machines sleep."""
    try:
        fields = running[running.rindex(")") + 2 :].split()
        if fields[_STATE] in ("Z", "X"):
            return True
        started_s = int(fields[_START_TICKS]) / _TICKS_PER_S
        now_s, up_s = map(float, clock.split()[:2])
    except (ValueError, IndexError):
        return False
    if unix_ns is None:
        return False
    is_later = now_s - (up_s - started_s) > unix_ns / 1e9 + _SLACK_S
    return is_later and (mono_ns is None or started_s > mono_ns / 1e9 + _BY_BOOT_SLACK_S)


def _connection(report: Report) -> ConnectionFile | None:
    try:
        return rendezvous.decode(report.connection or b"", rendezvous.CONNECTION_FILE)
    except ConnectionFileError:
        return None


def _identity(spool: Spool) -> Identity | None:
    for record in scan(spool.identity, kinds={RecordKind.IDENTITY}).records:
        try:
            return decode_payload(RecordKind.IDENTITY, record.payload)
        except FrameDecodeError:
            return None
    return None
