"""Which way a process reaches the aggregator: ipc on its node, TCP with a key from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from unilab_metrics.errors import KeyFileError
from unilab_metrics.storage.filesystem import boot_id
from unilab_metrics.transport import keys
from unilab_metrics.transport.allow_list import Use
from unilab_metrics.transport.ipc import ipc_path, is_own_socket
from unilab_metrics.transport.keys import CurveClient
from unilab_metrics.transport.rendezvous import ConnectionFile, DistantBus, rank_key


class Route(NamedTuple):
    """``curve``: the keys of a way over TCP, ``None`` on ipc. ``fetch`` may be empty: the first
    Head tells the port then."""

    ingest: str
    announce: str
    fetch: str
    curve: CurveClient | None = None


def choose_route(file: ConnectionFile, bus_dir: Path, use: Use, rank: int | None = None) -> Route:
    """The way for this process. ``bus_dir``: where it sees the run's bus directory. ``rank``:
    for whom it speaks, if not for itself.

    Raises :class:`KeyFileError` if the way needs a key and the run's cannot be used.
    """
    if not file.tcp_ingest or _is_here(file):
        return Route(file.ingest, file.announce, file.fetch)
    if isinstance(file, DistantBus):
        path = rank_key(Path(file.keys), file.rank if rank is None else rank)
    else:
        path = keys.key_path(bus_dir, use)
    curve = keys.read_client(path, use)
    if curve.server != file.server_key:
        raise KeyFileError(path, "does not belong to this run's server key")
    return Route(file.tcp_ingest, file.tcp_announce, file.tcp_fetch, curve)


def _is_here(file: ConnectionFile) -> bool:
    # Containers of one node have one boot id, and not always one file system.
    return bool(file.ingest) and file.boot_id == boot_id() and is_own_socket(ipc_path(file.ingest))
