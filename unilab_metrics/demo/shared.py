"""What two processes of a rank share: arrays in anonymous memory, and bells.

The memory has no name, so nothing is left behind whoever dies. A bell is a pipe: it wakes
the process at its other end and tells it when the ringer is gone. State lies in the arrays
only; a bell carries none, so a lost or doubled ring changes nothing.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

ALIGNMENT_BYTES = 64
"""Fields start on cache lines of their own, so that two writers never share one."""

Field = tuple[tuple[int, ...], DTypeLike]


class PeerLostError(RuntimeError):
    """The process at the other end of a bell is gone."""


class SharedArrays:
    """Named NumPy arrays in one shared mapping; pickled only while a process is spawned."""

    def __init__(self, context: SpawnContext, fields: Mapping[str, Field]) -> None:
        self._fields = dict(fields)
        size = sum(_padded_bytes(field) for field in self._fields.values())
        self._memory = context.RawArray("B", size + ALIGNMENT_BYTES)
        self._views = self._map()

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._views[name]

    def _map(self) -> dict[str, NDArray[Any]]:
        whole = np.frombuffer(self._memory, dtype=np.uint8)
        offset = -whole.ctypes.data % ALIGNMENT_BYTES
        views: dict[str, NDArray[Any]] = {}
        for name, field in self._fields.items():
            shape, dtype = field
            views[name] = np.ndarray(shape, dtype, buffer=whole, offset=offset)
            offset += _padded_bytes(field)
        return views

    def __getstate__(self) -> dict[str, Any]:
        return {"fields": self._fields, "memory": self._memory}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._fields = state["fields"]
        self._memory = state["memory"]
        self._views = self._map()


class Ringer:
    """The end of a bell that rings."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def ring(self) -> None:
        """Wakes the listener. Raises :class:`PeerLostError` when it is gone."""
        try:
            os.write(self._connection.fileno(), b"\0")
        except BrokenPipeError:
            raise PeerLostError("the listener of a bell is gone") from None

    def close(self) -> None:
        """Closes this end; the listener is told that its ringer is gone."""
        self._connection.close()


class Listener:
    """The end of a bell that waits."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._poll = select.poll()
        self._poll.register(connection.fileno(), select.POLLIN)

    def fileno(self) -> int:
        """Lets a selector wait for the bell."""
        return self._connection.fileno()

    def wait_for(self, arrived: Callable[[], bool], timeout_s: float) -> bool:
        """Waits until ``arrived`` holds, asked at each ring; false after ``timeout_s``.

        Raises :class:`PeerLostError`.
        """
        deadline_s = time.monotonic() + timeout_s
        while not arrived():
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or not self._poll.poll(left_s * 1000.0):
                return arrived()
            self.drain()
        return True

    def drain(self) -> None:
        """Forgets the rings so far. Call it when readable. Raises :class:`PeerLostError`."""
        if not os.read(self._connection.fileno(), 4096):
            raise PeerLostError("the ringer of a bell is gone")

    def close(self) -> None:
        """Closes this end."""
        self._connection.close()

    def __getstate__(self) -> Connection:
        return self._connection

    def __setstate__(self, connection: Connection) -> None:
        self.__init__(connection)


def create_bell(context: SpawnContext) -> tuple[Ringer, Listener]:
    """Both ends; each process must close the one that it has handed to its child."""
    reader, writer = context.Pipe(duplex=False)
    return Ringer(writer), Listener(reader)


def _padded_bytes(field: Field) -> int:
    shape, dtype = field
    size = int(np.prod(shape)) * int(np.dtype(dtype).itemsize)
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
