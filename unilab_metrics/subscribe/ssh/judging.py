"""What a report says of the run: where its sockets are, or why there are none. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from unilab_metrics.errors import (
    ConnectionFileError,
    EndpointError,
    ExitCode,
    NoLiveRunError,
    RunNotFoundError,
    SshError,
    UnreadSettingsError,
)
from unilab_metrics.storage.path_text import path_of
from unilab_metrics.storage.records import damaged_at_end, scan
from unilab_metrics.storage.segments import KIND_SEGMENT_HEADER
from unilab_metrics.subscribe.segment_chain import HISTORY_KINDS
from unilab_metrics.subscribe.ssh.report import Report
from unilab_metrics.subscribe.ssh.script import HISTORY_BYTES
from unilab_metrics.subscribe.ssh.target import SshTarget, copying
from unilab_metrics.subscribe.unread_history import unread_history
from unilab_metrics.transport import rendezvous
from unilab_metrics.transport.ipc import ipc_path


class RemoteBus(NamedTuple):
    """Sockets of an aggregator of the other machine. ``life``: see ``whereabouts.Contact``."""

    announce: str
    fetch: str
    life: tuple[int, int]


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    run_dir: str
    boot_id: str
    started_unix_ns: int


class NobodyAnswersError(NoLiveRunError):
    """Its file is there and its aggregator is not; others may be at work on the run."""


_decoder = msgspec.json.Decoder(_Entry)
_status_decoder = msgspec.json.Decoder(dict[str, object])


def judge(target: SshTarget, report: Report) -> RemoteBus:
    """Where to go. ``target``: with the path that was asked for. Raises
    :class:`RunNotFoundError`, :class:`NoLiveRunError`, :class:`ConnectionFileError`,
    ``DamagedFileError`` where nobody is at work and nothing of the history can be read, and
    :class:`SshError` for what cannot be reached from there."""
    name, host = str(target), target.destination
    if report.is_denied and report.connection is None:
        reason = f"{target.path} belongs to another user there; log in as the one who trains"
        raise SshError(host, reason, ExitCode.REFUSED)
    if not report.is_directory:
        raise RunNotFoundError(name, "is a file there" if report.is_file else "no such directory")
    if not report.has_bus:
        raise RunNotFoundError(name)
    path = f"{name}/bus/{rendezvous.CONNECTION_FILE}"
    if report.is_odd:
        raise ConnectionFileError(path, "is no regular file", ExitCode.DAMAGED)
    if report.connection is None:
        _refuse_unread(name, report)
        raise NoLiveRunError(_over(target, report))
    file = rendezvous.decode(report.connection, path)
    if file.boot_id != report.boot_id:
        raise SshError(host, _elsewhere(target, report, file), ExitCode.NO_LIVE_RUN)
    _refuse_unread(name, report)
    if not file.announce or not file.fetch:
        tcp = f"attach {file.tcp_announce} --key FILE" if file.tcp_announce else "nothing else"
        reason = f"the run listens on no unix sockets; there is `unilab-metrics {tcp}`"
        raise SshError(host, reason, ExitCode.NO_LIVE_RUN)
    try:
        announce, fetch = ipc_path(file.announce), ipc_path(file.fetch)
    except EndpointError as error:
        raise ConnectionFileError(path, str(error), ExitCode.DAMAGED) from error
    return RemoteBus(announce, fetch, (file.pid, file.started_unix_ns))


def live_paths(report: Report) -> list[str]:
    """Run directories that the user has listed since this boot, the newest first."""
    entries = [entry for entry in map(_entry, report.live) if entry is not None]
    here = [entry for entry in entries if entry.boot_id == report.boot_id]
    here.sort(key=lambda entry: entry.started_unix_ns, reverse=True)
    return [str(path_of(entry.run_dir)) for entry in here]


def no_live_run(target: SshTarget, tried: Iterable[str]) -> NoLiveRunError:
    """Of a host without one. ``tried``: run directories in which nobody answers."""
    names = ", ".join(list(tried)[:3])
    also = f"; nobody is at work any more on {names}" if names else ""
    advice = f"name the directory of one: {target.destination}:RUN_DIR"
    return NoLiveRunError(f"{target.destination} has no live run of yours{also}; {advice}")


def nobody_answers(target: SshTarget) -> NobodyAnswersError:
    """Of a run whose file is there and whose aggregator is not; what it says is true once nobody
    else is at work on it either."""
    advice = f"there, `unilab-metrics recover {shlex.quote(target.path)}` completes it"
    return NobodyAnswersError(f"{target} was cut off: nobody is at work on it any more; {advice}")


def unread_settings(target: SshTarget) -> UnreadSettingsError:
    """Of a run whose aggregator is gone, and whose settings do not tell who else is."""
    reason = "damaged; without it nobody can tell who is at work on the run, which says nothing"
    return UnreadSettingsError(f"{target}/bus/settings.json", reason)


def _refuse_unread(name: str, report: Report) -> None:
    """As ``unread_history.refuse_unread`` does where the files are, as far as their beginnings
    tell."""
    begun = [_beginning(data) for _, data in report.histories]
    if any(is_read for is_read, _ in begun) or not any(is_damaged for _, is_damaged in begun):
        return
    raise unread_history(f"{name}/bus/{report.histories[-1][0]}")


def _beginning(data: bytes) -> tuple[bool, bool]:
    """Whether a segment's beginning has an entry that can be read, and whether it has damage."""
    found = scan(data, kinds=HISTORY_KINDS, complete=len(data) < HISTORY_BYTES)
    has_header = any(record.kind == KIND_SEGMENT_HEADER for record in found.records)
    is_damaged = bool(not has_header or found.damaged or damaged_at_end(data, found))
    return any(record.kind != KIND_SEGMENT_HEADER for record in found.records), is_damaged


def _over(target: SshTarget, report: Report) -> str:
    status = _status(report.summary)
    if status is None:
        return f"{target} has no live bus: it has not started yet, or it was cut off"
    there = f"there, `unilab-metrics replay {shlex.quote(target.path)}` shows it"
    return f"{target} has ended ({status}); {there}, or here `{copying(target)}`"


def _status(summary: bytes | None) -> str | None:
    try:
        fields = _status_decoder.decode(summary or b"")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    status = fields.get("status")
    return status if isinstance(status, str) else None


def _elsewhere(target: SshTarget, report: Report, file: rendezvous.ConnectionFile) -> str:
    if file.host == report.host:
        return (
            f"{target.path} was written before {report.host} started anew; nobody is at work on it"
        )
    tcp = f", or `attach {file.tcp_announce} --key FILE`" if file.tcp_announce else ""
    way = f"`unilab-metrics attach {file.host}:{target.path}` with ProxyJump {target.destination}"
    return (
        f"the run is on the node {file.host}, not on {report.host}; try {way} in ~/.ssh/config{tcp}"
    )


def _entry(data: bytes) -> _Entry | None:
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
