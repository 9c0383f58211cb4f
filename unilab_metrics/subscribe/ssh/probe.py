"""Whether anybody listens at the other end of a socket that ssh forwards."""

from __future__ import annotations

import contextlib
import socket
import time

_PROBE_S = 5.0


class Probe:
    """Owned by one thread; nothing here waits."""

    def __init__(self, path: str) -> None:
        """``path``: of the socket here. Raises ``OSError`` only if there can be no more sockets."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._until_s = time.monotonic() + _PROBE_S
        # One that is not connected says so when it is read.
        with contextlib.suppress(OSError):
            self._socket.connect(path)

    def found(self) -> bool | None:
        """Who listens greets at once, of a dead socket ssh hangs up; ``None`` while neither has
        come, for a few seconds."""
        try:
            return bool(self._socket.recv(1))
        except BlockingIOError:
            return None if time.monotonic() < self._until_s else False
        except OSError:
            return False

    def close(self) -> None:
        """Idempotent."""
        self._socket.close()
