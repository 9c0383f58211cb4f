"""The TCP side of the aggregator's sockets: keys, ports, the allow-list and its changes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import zmq

from unilab_metrics.errors import EndpointError, EndpointInUseError, KeyFileError
from unilab_metrics.storage.mounts import keeps_modes
from unilab_metrics.transport import keys, sockets
from unilab_metrics.transport.addresses import (
    AUTOMATIC,
    TcpAddress,
    node_address,
    parse_tcp,
    reachable_host,
)
from unilab_metrics.transport.allow_list import NOBODY, AllowList
from unilab_metrics.transport.crowd import Crowd
from unilab_metrics.transport.ports import Ports, keep_ports, wanted_ports

_LOOK_INTERVAL_S = 0.2
_REBIND_S = 0.05
"""How long to wait for a port of ours to be free again before the loop goes on."""


class TcpEndpoints(NamedTuple):
    """Where others reach us, and which public key answers there."""

    ingest: str
    announce: str
    fetch: str
    server_key: str

    @property
    def fetch_port(self) -> int:
        """0 if there is none."""
        return parse_tcp(self.fetch).port if self.server_key else 0


class BoundSockets(NamedTuple):
    """The three sockets of an aggregator."""

    ingest: zmq.Socket[bytes]
    announce: zmq.Socket[bytes]
    fetch: zmq.Socket[bytes]


class TcpDoor:
    """Lets the sockets listen on TCP, and cuts off whoever loses its permission.

    Owned by the sockets' thread. ``endpoints`` is what the connection file says.
    """

    def __init__(
        self,
        bound: BoundSockets,
        bus_dir: Path,
        bind: str,
        *,
        crowd: Crowd,
        towards: str = "",
        say: Callable[[str], None],
    ) -> None:
        """``bind``: ``tcp://HOST[:PORT]`` or ``auto``. ``towards``: a host of the same job.
        ``crowd``: must be told what the sockets' monitors see.

        Raises :class:`EndpointError` and :class:`KeyFileError` if it cannot be, ``OSError``
        and ``UnsafePathError`` if the keys cannot be made.
        """
        self._bus_dir = bus_dir
        self._say = say
        self._curve = keys.prepare_keys(bus_dir)
        if not keeps_modes(keys.key_directory(bus_dir)):
            say(
                f"warning: {keys.key_directory(bus_dir)} cannot be made private: its file system "
                "ignores file modes, so whoever may read it has the keys of this run"
            )
        self._places: list[tuple[zmq.Socket[bytes], TcpAddress]] = []
        self._waiting: list[tuple[zmq.Socket[bytes], TcpAddress]] = []
        self._seen: object = None
        self._look_at_s = 0.0
        self._problem = ""
        self._file_problems: tuple[str, ...] = ()
        self.allowed = NOBODY
        self.look(at_once=True)
        asked = TcpAddress(node_address(towards), 0) if bind == AUTOMATIC else parse_tcp(bind)
        host = reachable_host(asked.host, towards)
        wanted = wanted_ports(bus_dir, asked.port)
        try:
            ports = Ports(
                announce=self._bind(bound.announce, asked.host, wanted.announce),
                fetch=self._bind(bound.fetch, asked.host, wanted.fetch),
                ingest=self._bind(bound.ingest, asked.host, wanted.ingest),
            )
        except EndpointError:
            self.close()
            raise
        keep_ports(bus_dir, ports)
        self._crowd = crowd
        self._crowd.doors.update(address.endpoint for _, address in self._places)
        self.endpoints = TcpEndpoints(
            ingest=TcpAddress(host, ports.ingest).endpoint,
            announce=TcpAddress(host, ports.announce).endpoint,
            fetch=TcpAddress(host, ports.fetch).endpoint,
            server_key=self._curve.public,
        )

    def look(self, *, at_once: bool = False) -> AllowList:
        """The allow-list as it is now; when something was taken out of it, every connection is
        cut, and who is still listed comes back by itself. Call it each turn; cheap.

        ``at_once``: somebody asks to come in, who may have been listed a moment ago.
        """
        now_s = time.monotonic()
        if not at_once and now_s < self._look_at_s:
            return self.allowed
        self._look_at_s = now_s + _LOOK_INTERVAL_S
        if self._waiting:
            self._bind_again()
        seen = _identity(keys.allowed_path(self._bus_dir))
        if seen == self._seen:
            return self.allowed
        before, self.allowed = self.allowed, self._read()
        self._seen = seen
        kept = self.allowed.grants
        if any(kept.get(key) != grant for key, grant in before.grants.items()):
            self._say("the allow-list has changed; connections over TCP are made anew")
            self._cut_off(self._places)
        return self.allowed

    def cut_off(self, made: zmq.Socket[bytes] | None = None) -> None:
        """Close every connection over TCP, of one socket or all; who means well comes back by
        itself."""
        self._cut_off([place for place in self._places if made in {None, place[0]}])

    def close(self) -> None:
        """Listen on TCP no more."""
        places = [place for place in self._places if place not in self._waiting]
        self._places, self._waiting = [], []
        for made, address in places:
            sockets.unbind_tcp(made, address)

    def _read(self) -> AllowList:
        try:
            found = keys.read_allowed(self._bus_dir)
        except KeyFileError as error:
            if str(error) != self._problem:
                self._say(f"nobody is let in over TCP: {error}")
            self._problem = str(error)
            return NOBODY
        if self._problem:
            self._say("the allow-list can be read again")
        self._problem = ""
        if found.problems and found.problems != self._file_problems:
            more = f" (and {len(found.problems) - 1} more)" if len(found.problems) > 1 else ""
            path = keys.allowed_path(self._bus_dir)
            first = next(iter(found.problems))
            self._say(f"{path}: {first}; it grants nothing{more}")
        self._file_problems = found.problems
        return found

    def _cut_off(self, places: list[tuple[zmq.Socket[bytes], TcpAddress]]) -> None:
        # libzmq cannot close one connection, but closes all of a listener with it.
        for made, address in places:
            if (made, address) not in self._waiting:
                sockets.unbind_tcp(made, address)
                self._waiting.append((made, address))
        self._crowd.cut_off({address.port for _, address in places})
        deadline_s = time.monotonic() + _REBIND_S
        while self._waiting and time.monotonic() < deadline_s:
            self._bind_again()
            time.sleep(0.001)

    def _bind_again(self) -> None:
        still: list[tuple[zmq.Socket[bytes], TcpAddress]] = []
        for made, address in self._waiting:
            try:
                sockets.bind_tcp(made, address, self._curve)
            except EndpointError:
                # The I/O thread closes the old listener a moment later than we ask for it.
                still.append((made, address))
        self._waiting = still

    def _bind(self, made: zmq.Socket[bytes], host: str, port: int) -> int:
        try:
            got = sockets.bind_tcp(made, TcpAddress(host, port), self._curve)
        except EndpointInUseError:
            got = sockets.bind_tcp(made, TcpAddress(host, 0), self._curve)
            self._say(f"port {port} of {host} is taken; using {got.port}")
        self._places.append((made, got))
        return got.port


def _identity(path: Path) -> object:
    try:
        status = path.lstat()
    except OSError as error:
        return error.errno
    return (
        status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode,
        os.geteuid(),
    )  # fmt: skip
