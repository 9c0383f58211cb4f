"""How many connections over TCP there may be: fewer than the process has descriptors.

libzmq ends the process if it gets none for an ipc peer, and an idle connection costs nobody but
us anything. So the newest ones beyond a bound are turned away; who was there before stays.
"""

from __future__ import annotations

import contextlib
import resource
import socket
from collections.abc import Container, Iterable

from unilab_metrics.transport import monitoring
from unilab_metrics.transport.monitoring import Happening

WATCHED = monitoring.ACCEPTED | monitoring.DISCONNECTED
"""What a monitor must see for it."""
RESERVED = 512
"""Descriptors that stay for ipc peers, files and ourselves; at most half of all."""
BACKLOG = 16
"""Connections that the system makes ahead of us, for each port: what can come at once."""
_UNLIMITED = 1_000_000


def capacity() -> int:
    """How many connections over TCP there may be under the process's present limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _UNLIMITED
    return max(soft - RESERVED, soft // 2)


class Crowd:
    """Counts connections over TCP by what the sockets' monitors say. One thread's."""

    def __init__(self, ports: Iterable[int], most: int) -> None:
        """``ports``: those that are ours; ``most``: see :func:`capacity`."""
        self._ports = frozenset(ports)
        self._most = most
        self._open: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._open)

    def cut_off(self, ports: Container[int]) -> None:
        """All connections to these ports were closed together, which no monitor tells."""
        for descriptor, endpoint in list(self._open.items()):
            if int(endpoint.rpartition(":")[2]) in ports:
                del self._open[descriptor]

    def heed(self, happening: Happening) -> bool:
        """False if this was one connection too many, which has been turned away."""
        descriptor = happening.value
        if happening.kind == monitoring.DISCONNECTED:
            self._open.pop(descriptor, None)
            return True
        if happening.kind != monitoring.ACCEPTED:
            return True
        self._open[descriptor] = happening.endpoint
        if len(self._open) <= self._most:
            return True
        self._turn_away(descriptor)
        return False

    def _turn_away(self, descriptor: int) -> None:
        """Ends a connection below libzmq, which then closes it by itself."""
        with contextlib.suppress(OSError):
            borrowed = socket.socket(fileno=descriptor)
            try:
                # It may be closed by now, and its number be another file's.
                if borrowed.family in {socket.AF_INET, socket.AF_INET6} and (
                    borrowed.getsockname()[1] in self._ports
                ):
                    borrowed.shutdown(socket.SHUT_RDWR)
            finally:
                borrowed.detach()
