"""Where the aggregator of a run can be reached: its connection file and the user's registry."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

from unilab_metrics.aggregate.endurance import needing
from unilab_metrics.storage.filesystem import boot_id
from unilab_metrics.transport import registry, rendezvous
from unilab_metrics.transport.endpoints import Endpoints
from unilab_metrics.transport.rendezvous import ConnectionFile, bus_directory


def show(run_dir: Path, endpoints: Endpoints, *, journal: bytes, launch: str) -> None:
    """Put both in place. Raises ``StorageError`` if the bus directory cannot be written."""
    file = ConnectionFile(
        run_dir=os.fspath(run_dir),
        journal=journal.hex(),
        pid=os.getpid(),
        started_unix_ns=time.time_ns(),
        boot_id=boot_id(),
        host=socket.gethostname(),
        ingest=endpoints.ipc.ingest,
        announce=endpoints.ipc.announce,
        fetch=endpoints.ipc.fetch,
        launch=launch,
        tcp_ingest=endpoints.tcp.ingest,
        tcp_announce=endpoints.tcp.announce,
        tcp_fetch=endpoints.tcp.fetch,
        server_key=endpoints.tcp.server_key,
    )
    bus_dir = bus_directory(run_dir)
    with needing(bus_dir):
        rendezvous.write(bus_dir, file)
    registry.register(run_dir, os.getpid())


def hide(run_dir: Path) -> None:
    """Take both away; only for who still has the aggregator's lease."""
    rendezvous.remove(bus_directory(run_dir))
    registry.unregister(run_dir)
