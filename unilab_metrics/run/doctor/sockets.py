"""The endpoints of ``bus.json``: safe, in their place, and answered."""

from __future__ import annotations

import os
import socket
import stat
import time
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path

from unilab_metrics.errors import (
    ConnectionFileError,
    EndpointError,
    ExitCode,
    UnilabMetricsError,
)
from unilab_metrics.run.doctor.finding import ERROR, OK, UNKNOWN, WARNING, Finding
from unilab_metrics.run.doctor.patient import Patient
from unilab_metrics.storage.filesystem import boot_id
from unilab_metrics.subscribe.connection import BusConnection
from unilab_metrics.transport.allow_list import WATCH
from unilab_metrics.transport.ipc import ipc_path, is_own_socket, listener_pid
from unilab_metrics.transport.rendezvous import ConnectionFile
from unilab_metrics.transport.routes import choose_route
from unilab_schema.control import Head

_SUBJECT = "sockets"
_ANSWER_S = 2.0
"""A head comes each second."""
_SILENT_S = 5.0


def examine(patient: Patient) -> Iterator[Finding]:
    """Findings about the connection file and what it names."""
    file = patient.connection
    if isinstance(file, ConnectionFileError):
        yield _without_file(patient, file)
        return
    if patient.aggregator_pid is None:
        text = f"bus.json names an aggregator (pid {file.pid} on {file.host}) that is gone"
        if patient.ended is None and patient.rank_0_pid is not None:
            text += f"; another one is being started again: rank 0 (pid {patient.rank_0_pid}) lives"
        yield Finding(_SUBJECT, WARNING, text, patient.completion)
        return
    if file.boot_id == boot_id() and not _is_of_another_container(file):
        for endpoint in (file.ingest, file.announce, file.fetch):
            yield from _ipc(endpoint, {file.pid, patient.aggregator_pid}, patient.aggregator_pid)
    if file.tcp_ingest:
        yield Finding(_SUBJECT, OK, f"listens on {file.tcp_ingest} for other nodes, with keys")
    yield from _answer(patient, file)


def _is_of_another_container(file: ConnectionFile) -> bool:
    """Whether its sockets lie where this process cannot see: then it is reached over TCP."""
    if not file.tcp_ingest or file.host == socket.gethostname():
        return False
    with suppress(EndpointError):
        return not is_own_socket(ipc_path(file.ingest))
    return False


def _without_file(patient: Patient, error: ConnectionFileError) -> Finding:
    if error.exit_code == ExitCode.REFUSED:
        fix = f"chmod 700 {patient.bus_dir} && chmod 600 {patient.bus_dir}/*"
        return Finding(_SUBJECT, ERROR, str(error), fix)
    if error.exit_code == ExitCode.DAMAGED:
        return Finding(_SUBJECT, ERROR, str(error), "the next aggregator writes another one")
    if patient.aggregator_pid is not None:
        text = "the aggregator is starting: it has not said where it listens"
        return Finding(_SUBJECT, WARNING, text)
    return Finding(_SUBJECT, OK, "nobody listens, and no file says so")


def _ipc(endpoint: str, known: AbstractSet[int], aggregator: int) -> Iterator[Finding]:
    # In a container the aggregator has another pid than it says itself.
    try:
        path = Path(ipc_path(endpoint))
    except EndpointError as error:
        yield Finding(_SUBJECT, ERROR, str(error), "set UNILAB_METRICS_RUNTIME to a short path")
        return
    try:
        status, directory = path.lstat(), path.parent.lstat()
        pid = listener_pid(os.fspath(path)) if stat.S_ISSOCK(status.st_mode) else None
    except FileNotFoundError:
        text = f"{path} is gone: nobody new reaches the aggregator"
        fix = f"kill {aggregator}   (rank 0 starts another one, nothing is lost)"
        yield Finding(_SUBJECT, ERROR, text, fix)
        return
    if directory.st_mode & 0o077 or directory.st_uid != os.geteuid():
        mode = stat.S_IMODE(directory.st_mode)
        text = f"{path.parent} is open to others (mode {mode:04o}, uid {directory.st_uid})"
        yield Finding(_SUBJECT, ERROR, text, f"chmod 700 {path.parent}")
    if pid is None:
        yield Finding(_SUBJECT, ERROR, f"nobody listens at {path}", f"kill {aggregator}")
    elif pid and pid not in known:
        yield Finding(_SUBJECT, ERROR, f"pid {pid} listens at {path}, not the aggregator")
    else:
        size = len(os.fsencode(path))
        yield Finding(_SUBJECT, OK, f"{path} is listened at ({size} of 107 bytes)")


def _answer(patient: Patient, file: ConnectionFile) -> Iterator[Finding]:
    try:
        connection = BusConnection(choose_route(file, patient.bus_dir, WATCH))
    except UnilabMetricsError as error:
        yield Finding(_SUBJECT, UNKNOWN, f"cannot ask the aggregator: {error}")
        return
    began_s = time.monotonic()
    head: Head | None = None
    try:
        while head is None and time.monotonic() - began_s < _ANSWER_S:
            connection.wait(100)
            heads = connection.receive().heads
            head = heads[-1] if heads else None
    finally:
        connection.close()
    if head is None:
        text = f"the aggregator (pid {patient.aggregator_pid}) says nothing for {_ANSWER_S:g} s"
        fix = f"kill -CONT {patient.aggregator_pid}   (if it is stopped; rank 0 replaces a hung one after 15 s)"
        yield Finding(_SUBJECT, ERROR, text, fix)
        return
    waited_ms = (time.monotonic() - began_s) * 1e3
    text = f"the aggregator answers after {waited_ms:.0f} ms: update {head.update:,}"
    behind = head.update - head.durable
    yield Finding(_SUBJECT, OK, f"{text}, {behind:,} not on the disk yet")
    yield from _as_the_aggregator_sees_it(head)


def _as_the_aggregator_sees_it(head: Head) -> Iterator[Finding]:
    for source in head.sources:
        if (source.state == "live" and source.age_s > _SILENT_S) or source.state == "silent":
            name = f"{source.key.place} (pid {source.pid})"
            yield Finding(_SUBJECT, WARNING, f"{name} has said nothing for {source.age_s:.0f} s")
    for backend in head.backends:
        if backend.state in {"failed", "restarting"}:
            what = f"the writer of {backend.name}: {backend.state}"
            yield Finding(_SUBJECT, ERROR, f"{what} ({backend.text})")
