"""What happens to connections below a socket: handshakes that fail, and why.

The events come over a socket of their own. Its queue has no bound: libzmq would hold up the
context's one I/O thread, and with it every connection, when nobody takes them for a while.
"""

from __future__ import annotations

import itertools
import struct
from typing import NamedTuple

import zmq

_EVENT = struct.Struct("=hi")
_numbers = itertools.count()

ACCEPTED = int(zmq.EVENT_ACCEPTED)
CONNECTED = int(zmq.EVENT_CONNECTED)
RETRIED = int(zmq.EVENT_CONNECT_RETRIED)
DISCONNECTED = int(zmq.EVENT_DISCONNECTED)
WELCOMED = int(zmq.EVENT_HANDSHAKE_SUCCEEDED)
BROKEN_OFF = int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)
NO_PROTOCOL = int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL)
REFUSED = int(zmq.EVENT_HANDSHAKE_FAILED_AUTH)
FAILURES = BROKEN_OFF | NO_PROTOCOL | REFUSED
"""Ends of a handshake. ``BROKEN_OFF``: the peer hung up or was too slow; ``NO_PROTOCOL``: see
``value``; ``REFUSED``: by the other side's authentication."""

WRONG_SERVER_KEY = int(zmq.PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC)
OTHER_MECHANISM = int(zmq.PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
"""Values of ``NO_PROTOCOL``."""


class Happening(NamedTuple):
    """``kind``: one of the constants above. ``value``: a descriptor for ``ACCEPTED`` and
    ``DISCONNECTED``, an error number, or what the kind says.
    ``endpoint``: the bound one, or the one connected to."""

    kind: int
    value: int
    endpoint: str


class Monitor:
    """Watches one socket; owned by the socket's thread, closed before the socket."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], watched: zmq.Socket[bytes], kinds: int
    ) -> None:
        """``context``: that of the watched socket."""
        self._watched = watched
        address = f"inproc://unilab-metrics-monitor-{next(_numbers)}"
        watched.monitor(address, kinds)
        self.socket: zmq.Socket[bytes] = context.socket(zmq.PAIR)
        """To be polled together with others."""
        self.socket.set(zmq.LINGER, 0)
        self.socket.set(zmq.RCVHWM, 0)
        self.socket.connect(address)

    def take(self, limit: int = 256) -> list[Happening]:
        """What has happened since, in order, without waiting."""
        happened: list[Happening] = []
        while len(happened) < limit:
            try:
                parts = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            kind, value = _EVENT.unpack(parts[0])
            happened.append(Happening(kind & 0xFFFF, value, parts[1].decode(errors="replace")))
        return happened

    def close(self) -> None:
        """Idempotent."""
        if not self.socket.closed:
            if not self._watched.closed:
                self._watched.disable_monitor()
            self.socket.close(linger=0)
