"""The connection file ``bus.json``: where the aggregator of a run listens.

Written by the aggregator into the private bus directory of the run, read by everybody else.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from unilab_metrics.errors import (
    ConnectionFileError,
    ExitCode,
    StorageError,
    UnsafePathError,
)
from unilab_metrics.storage.filesystem import check_private, read_private, write_atomic

CONNECTION_FILE = "bus.json"
CONNECTION_FILE_VERSION = 1
AGGREGATOR_LEASE = "aggregator.lease"
"""Name of the lease in the bus directory that the run's one aggregator holds."""
BUS_DIRECTORY = "bus"
_MAX_BYTES = 64 * 1024
_MAX_PID, _MAX_NS = 2**31 - 1, 2**63 - 1


class ConnectionFile(msgspec.Struct, frozen=True, kw_only=True):
    """What a process must know to talk to the aggregator.

    ``journal``: the journal id in hex, which names the run over restarts of the aggregator.
    ``pid``, ``started_unix_ns``, ``boot_id`` and ``host``: this aggregator.
    ``ingest``, ``announce``, ``fetch``: its endpoints. ``launch``: the launch key.
    ``tcp_ingest``, ``tcp_announce``, ``tcp_fetch``: the same for other nodes, and ``server_key``
    the public key in z85 that answers there; empty if it listens on this node only.
    """

    version: int = CONNECTION_FILE_VERSION
    run_dir: str
    journal: str
    pid: int
    started_unix_ns: int
    boot_id: str
    host: str
    ingest: str
    announce: str
    fetch: str
    launch: str = ""
    tcp_ingest: str = ""
    tcp_announce: str = ""
    tcp_fetch: str = ""
    server_key: str = ""


class DistantBus(ConnectionFile, frozen=True, kw_only=True):
    """An aggregator that is known without its run directory being seen here. In no file.

    ``keys``: directory of the pairs that this node's ranks have made for themselves, see
    :func:`rank_key`. ``rank``: whose pair is this process's own.
    """

    keys: str
    rank: int


class _VersionOnly(msgspec.Struct, frozen=True):
    version: int


_decoder = msgspec.json.Decoder(ConnectionFile)
_version_decoder = msgspec.json.Decoder(_VersionOnly)


def bus_directory(run_dir: Path) -> Path:
    """The private directory of the run's connection file and journal."""
    return run_dir / BUS_DIRECTORY


def aggregator_lease(run_dir: Path) -> Path:
    """The lease file whose holder is the run's aggregator."""
    return bus_directory(run_dir) / AGGREGATOR_LEASE


def rank_key(keys: Path, rank: int) -> Path:
    """The pair of a rank of this node."""
    return keys / f"rank-{rank}.key"


def write(bus_dir: Path, file: ConnectionFile) -> None:
    """Put ``bus.json`` in place, mode 0600. Raises ``OSError``."""
    text = msgspec.json.format(msgspec.json.encode(file), indent=2)
    write_atomic(bus_dir / CONNECTION_FILE, text + b"\n")


def read(bus_dir: Path) -> ConnectionFile:
    """Raises :class:`ConnectionFileError`, whose ``exit_code`` tells missing, unsafe and
    damaged apart: nobody but us may have written the directory or the file."""
    path = bus_dir / CONNECTION_FILE
    try:
        check_private(bus_dir, bus_dir.lstat(), directory=True)
        data = read_private(path, _MAX_BYTES)
    except UnsafePathError as error:
        raise ConnectionFileError(error.path, error.reason, ExitCode.REFUSED) from error
    except StorageError as error:
        raise ConnectionFileError(error.path, error.reason, ExitCode.DAMAGED) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConnectionFileError(path, reason) from error
    return decode(data, path)


def decode(data: bytes, path: Path | str) -> ConnectionFile:
    """What a connection file says. ``path``: where it lies, for messages. Raises
    :class:`ConnectionFileError` for a damaged one and unknown versions."""
    try:
        version = _version_decoder.decode(data).version
        if version != CONNECTION_FILE_VERSION:
            reason = f"version {version}, this program knows {CONNECTION_FILE_VERSION}"
            raise ConnectionFileError(path, reason, ExitCode.DAMAGED)
        file = _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConnectionFileError(path, str(error), ExitCode.DAMAGED) from error
    if not (0 < file.pid <= _MAX_PID and 0 <= file.started_unix_ns <= _MAX_NS):
        raise ConnectionFileError(path, "names no process", ExitCode.DAMAGED)
    return file


def remove(bus_dir: Path) -> None:
    """Take ``bus.json`` away; a missing one is fine."""
    (bus_dir / CONNECTION_FILE).unlink(missing_ok=True)
