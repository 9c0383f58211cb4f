"""``bus/ports.json``: the TCP ports of a run, so that its next aggregator takes the same ones.

Processes that share no file system with the run know nothing but host and port.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from unilab_metrics.errors import StorageError
from unilab_metrics.storage.filesystem import read_private, write_atomic

PORTS_FILE = "ports.json"
_VERSION = 1
_MAX_BYTES = 4096


class Ports(msgspec.Struct, frozen=True, kw_only=True):
    """0: any. ``announce`` is the one that people know."""

    version: int = _VERSION
    announce: int = 0
    fetch: int = 0
    ingest: int = 0


_decoder = msgspec.json.Decoder(Ports)


def wanted_ports(bus_dir: Path, asked: int) -> Ports:
    """Which ports to try first: the asked one and the two behind it, or those of last time."""
    if asked:
        behind = [port if port < 65_536 else 0 for port in (asked + 1, asked + 2)]
        return Ports(announce=asked, fetch=behind[0], ingest=behind[1])
    unreadable = (OSError, StorageError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
    with contextlib.suppress(*unreadable):
        found = _decoder.decode(read_private(bus_dir / PORTS_FILE, _MAX_BYTES))
        ports = (found.announce, found.fetch, found.ingest)
        if found.version == _VERSION and all(0 <= port < 65_536 for port in ports):
            return found
    return Ports()


def keep_ports(bus_dir: Path, ports: Ports) -> None:
    """Remember them; a disk that takes nothing costs only that."""
    with contextlib.suppress(OSError):
        write_atomic(bus_dir / PORTS_FILE, msgspec.json.encode(ports) + b"\n")
