"""Where the aggregator of a run can be reached: its connection file and the user's registry.

Whoever comes late, or must connect again, finds the run by that file only. So one that somebody
has removed or edited is put in place again.
"""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

from unilab_metrics.aggregate.endurance import needing
from unilab_metrics.aggregate.process_log import say
from unilab_metrics.errors import ConnectionFileError
from unilab_metrics.said_once import SaidOnce
from unilab_metrics.storage.filesystem import boot_id
from unilab_metrics.storage.path_text import shown_path
from unilab_metrics.transport import registry, rendezvous
from unilab_metrics.transport.endpoints import Endpoints
from unilab_metrics.transport.rendezvous import CONNECTION_FILE, ConnectionFile, bus_directory

_LOOK_INTERVAL_NS = 1_000_000_000


def connection_file(
    run_dir: Path, endpoints: Endpoints, *, journal: bytes, launch: str
) -> ConnectionFile:
    """What is to be known of the aggregator that is this process."""
    return ConnectionFile(
        run_dir=shown_path(run_dir),
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


def hide(run_dir: Path) -> None:
    """Take both away; only for who still has the aggregator's lease."""
    rendezvous.remove(bus_directory(run_dir))
    registry.unregister(run_dir)


class Presence:
    """Puts both in place. Owned by the aggregator's main thread, which has the lease."""

    def __init__(self, run_dir: Path, file: ConnectionFile) -> None:
        self._run_dir = run_dir
        self._bus_dir = bus_directory(run_dir)
        self._file = file
        self._seen: object = None
        self._said = SaidOnce()
        self._look_mono_ns = 0

    def show(self) -> None:
        """Put both in place. Raises ``StorageError`` if the bus directory cannot be written."""
        self._write()
        registry.register(self._run_dir, os.getpid())

    def look(self) -> None:
        """Whether the file is as it was; once a second, cheap. Raises as :meth:`show` does."""
        now = time.monotonic_ns()
        if now < self._look_mono_ns:
            return
        self._look_mono_ns = now + _LOOK_INTERVAL_NS
        seen = self._stamp()
        if seen == self._seen:
            return
        try:
            is_right = rendezvous.read(self._bus_dir) == self._file
        except ConnectionFileError:
            is_right = False
        if is_right:
            self._seen = seen
            return
        self._write()
        text = "the connection file was removed or changed; it is in place again"
        if text := self._said.fails("changed", text):
            say(text)
        self._said.works("")

    def _write(self) -> None:
        with needing(self._bus_dir):
            rendezvous.write(self._bus_dir, self._file)
        self._seen = self._stamp()

    def _stamp(self) -> object:
        try:
            status = (self._bus_dir / CONNECTION_FILE).lstat()
        except OSError as error:
            return error.errno
        return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
