"""What wrote the files and what reads them."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import version

import zmq

from unilab_metrics import __version__
from unilab_metrics.errors import DamagedFileError, UnknownVersionError
from unilab_metrics.run.doctor.finding import ERROR, OK, WARNING, Finding
from unilab_metrics.run.doctor.patient import Patient
from unilab_metrics.storage.records import RECORD_VERSION
from unilab_metrics.storage.segments import list_segments, read_segment_header
from unilab_metrics.transport.rendezvous import CONNECTION_FILE_VERSION
from unilab_schema.control import PROTOCOL_VERSION

_SUBJECT = "versions"


def examine_machine() -> Iterator[Finding]:
    """What runs here."""
    yield Finding(
        _SUBJECT,
        OK,
        f"unilab-metrics {__version__}, Python {platform.python_version()}, pyzmq "
        f"{zmq.pyzmq_version()}, libzmq {zmq.zmq_version()}, msgspec {version('msgspec')}, "
        f"numpy {version('numpy')}",
    )
    yield Finding(
        _SUBJECT,
        OK,
        f"knows protocol {PROTOCOL_VERSION}, records {RECORD_VERSION}, connection file "
        f"{CONNECTION_FILE_VERSION}",
    )
    if not zmq.has("curve"):
        text = "this libzmq has no CURVE: no other node can join a run of this machine"
        yield Finding(_SUBJECT, WARNING, text, "pip install --force-reinstall pyzmq")


def examine(patient: Patient) -> Iterator[Finding]:
    """What the files of the run were written with."""
    found: set[int] = set()
    for prefix in ("wal", "history", "blocks"):
        for path in list_segments(patient.bus_dir, prefix):
            try:
                header = read_segment_header(path)
            except UnknownVersionError as error:
                fix = "use the version of unilab-metrics that wrote it, or a newer one"
                yield Finding(_SUBJECT, ERROR, str(error), fix)
            except (DamagedFileError, FileNotFoundError):
                continue  # damage is the backlog's subject
            else:
                found |= {header.format_version} if header is not None else set()
    if found:
        yield Finding(_SUBJECT, OK, f"segments of format {', '.join(map(str, sorted(found)))}")
    others = sorted({source.identity.version for source in patient.sources} - {"", __version__})
    if others:
        text = f"processes of the run use unilab-metrics {', '.join(others)}, not {__version__}"
        yield Finding(_SUBJECT, WARNING, text, "one version in all processes of a run is safest")
