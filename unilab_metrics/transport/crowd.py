"""How many connections there may be: fewer than the process has descriptors.

libzmq ends the process if it gets none for an ipc peer, and an idle connection costs nobody but
us anything. So the newest ones beyond a bound are turned away; who was there before stays. Over
TCP, where anybody can knock, the bound is lower.
"""

from __future__ import annotations

import contextlib
import resource
import socket
from collections.abc import Collection, Iterable
from typing import NamedTuple

from unilab_metrics.transport import monitoring
from unilab_metrics.transport.monitoring import Happening

WATCHED = monitoring.ACCEPTED | monitoring.DISCONNECTED
"""What a monitor must see for it."""
BACKLOG = 16
"""Connections that the system makes ahead of us, for each port: what can come at once."""
_FOR_IPC = 512
"""Descriptors that TCP leaves to the others; at most half of all."""
_FOR_FILES = 256
"""Descriptors that connections leave to files, watched processes and whatever comes between two
of our looks; at most a quarter of all."""
_AT_LEAST_FOR_FILES = 64
_AT_LEAST = 16
"""Connections without which there is no run, whatever that means for the rest."""
_UNLIMITED = 1_000_000


class Capacity(NamedTuple):
    """How many connections there may be: over TCP, and over TCP and ipc together."""

    tcp: int
    all: int


def capacity(descriptors: int) -> Capacity:
    """Of a process that may have so many descriptors. Pure."""
    for_files = max(min(_FOR_FILES, descriptors // 4), _AT_LEAST_FOR_FILES)
    most = max(descriptors - for_files, _AT_LEAST)
    return Capacity(min(max(descriptors - _FOR_IPC, descriptors // 2), most), most)


def descriptor_limit() -> int:
    """How many descriptors this process may have at present."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else soft


class Crowd:
    """Counts connections by what the sockets' monitors say. One thread's.

    ``doors``: the endpoints that are listened at, as they were bound.
    """

    def __init__(self, doors: Iterable[str], most: Capacity) -> None:
        self.doors = set(doors)
        self._most = most
        self._open: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._open)

    def cut_off(self, ports: Collection[int]) -> None:
        """All connections to these ports were closed together, which no monitor tells."""
        for descriptor, endpoint in list(self._open.items()):
            if _is_tcp(endpoint) and _port(endpoint) in ports:
                del self._open[descriptor]

    def heed(self, happening: Happening) -> bool:
        """False if this was one connection too many, which has been turned away."""
        descriptor = happening.value
        if happening.kind == monitoring.DISCONNECTED:
            # Another socket's monitor may have told first that the number is used again.
            if self._open.get(descriptor) == happening.endpoint:
                del self._open[descriptor]
            return True
        if happening.kind != monitoring.ACCEPTED:
            return True
        self._open[descriptor] = happening.endpoint
        if len(self._open) <= self._most.tcp:
            return True
        over_tcp = sum(map(_is_tcp, self._open.values()))
        is_one_too_many = _is_tcp(happening.endpoint) and over_tcp > self._most.tcp
        if not is_one_too_many and len(self._open) <= self._most.all:
            return True
        self._turn_away(descriptor)
        return False

    def _turn_away(self, descriptor: int) -> None:
        """Ends a connection below libzmq, which then closes it by itself."""
        with contextlib.suppress(OSError):
            borrowed = socket.socket(fileno=descriptor)
            try:
                # It may be closed by now, and its number be another file's.
                if self._is_ours(borrowed):
                    borrowed.shutdown(socket.SHUT_RDWR)
            finally:
                borrowed.detach()

    def _is_ours(self, borrowed: socket.socket) -> bool:
        name = borrowed.getsockname()
        if borrowed.family == socket.AF_UNIX:
            return f"ipc://{name}" in self.doors
        if borrowed.family not in {socket.AF_INET, socket.AF_INET6}:
            return False
        return name[1] in {_port(door) for door in self.doors if _is_tcp(door)}


def _is_tcp(endpoint: str) -> bool:
    return endpoint.startswith("tcp:")


def _port(endpoint: str) -> int:
    return int(endpoint.rpartition(":")[2])
