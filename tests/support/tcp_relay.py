"""A relay on loopback that cuts connections after a number of bytes, wherever in a frame that is."""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
from collections.abc import Callable, Iterator

_CHUNK = 4096
_RESET = struct.pack("ii", 1, 0)

Allowance = Callable[[int], int | None]
"""How many bytes the n-th connection may carry to the target; ``None`` for any number."""


class TcpRelay:
    """Made by :func:`relay`. ``connections``: how many came; ``cuts``: how many were reset."""

    def __init__(self, target: tuple[str, int], allowance: Allowance) -> None:
        self.connections = 0
        self.cuts = 0
        self._target = target
        self._allowance = allowance
        self._selector = selectors.DefaultSelector()
        self._left: dict[socket.socket, int | None] = {}
        self._other: dict[socket.socket, socket.socket] = {}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._stop, self._stopped = socket.socketpair()
        self._selector.register(self._stopped, selectors.EVENT_READ)
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        self._stop.send(b"x")
        self._thread.join()
        for made in (*self._other, self._listener, self._stop, self._stopped):
            made.close()
        self._selector.close()

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                made = key.fileobj
                if made is self._stopped:
                    return
                assert isinstance(made, socket.socket)
                if made is self._listener:
                    self._accept()
                elif made in self._other:
                    self._pass_on(made)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        try:
            server = socket.create_connection(self._target, timeout=2)
        except OSError:
            client.close()
            return
        self._left[client] = self._allowance(self.connections)
        self._left[server] = None
        self.connections += 1
        self._other |= {client: server, server: client}
        for made in (client, server):
            self._selector.register(made, selectors.EVENT_READ)

    def _pass_on(self, made: socket.socket) -> None:
        left = self._left[made]
        try:
            data = made.recv(_CHUNK if left is None else min(left, _CHUNK))
            if data:
                self._other[made].sendall(data)
        except OSError:
            data = b""
        if left is not None:
            self._left[made] = left = left - len(data)
        if not data or left == 0:
            self.cuts += left == 0
            self._end(made)

    def _end(self, made: socket.socket) -> None:
        for one in (made, self._other[made]):
            self._selector.unregister(one)
            del self._left[one], self._other[one]
            # Not an orderly end: what is under way is thrown away at both sides.
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            one.close()


@contextlib.contextmanager
def relay(target: tuple[str, int], allowance: Allowance) -> Iterator[TcpRelay]:
    """A relay to ``target``, gone at the end."""
    made = TcpRelay(target, allowance)
    try:
        yield made
    finally:
        made.close()
