"""An aggregator's sockets with everything at their doors, attended by a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import zmq

from unilab_metrics.transport import keys, sockets
from unilab_metrics.transport.allow_list import Use
from unilab_metrics.transport.endpoints import Endpoints
from unilab_metrics.transport.keys import CurveClient
from unilab_metrics.transport.memory_bound import MemoryBound

Socket = zmq.Socket[bytes]
Connect = Callable[..., Socket]
"""(how, endpoint, keys) to a socket of a context of its own."""


class Doors:
    """Receives at all three sockets and echoes what comes; ``came`` is (socket, user, bytes)."""

    def __init__(
        self,
        short_path: Path,
        bus_dir: Path,
        bind: str = "tcp://127.0.0.1",
        memory: MemoryBound | None = None,
    ) -> None:
        self.said: list[str] = []
        self.came: list[tuple[str, str, bytes]] = []
        self.bus_dir = bus_dir
        self._context = sockets.context()
        self.endpoints = Endpoints(
            self._context, f"ipc://{short_path}/{id(self)}", bus_dir, bind=bind,
            say=self.said.append, memory=memory,
        )  # fmt: skip
        self.joined = 0
        self.forgets = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def client(self, use: Use) -> CurveClient:
        """The run's own pair."""
        return keys.read_client(keys.key_path(self.bus_dir, use), use)

    @property
    def refused(self) -> dict[str, int]:
        return dict(self.endpoints.refused)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(10)
        self.endpoints.close()
        sockets.terminate(self._context)

    def _run(self) -> None:
        poller = zmq.Poller()
        self.endpoints.register(poller)
        bound = self.endpoints.sockets
        announced_s = 0.0
        while not self._stop.is_set():
            poller.poll(20)
            self.endpoints.attend()
            for name, one in (("ingest", bound.ingest), ("fetch", bound.fetch)):
                while one.poll(0):
                    parts, user = sockets.receive(one)
                    self.came.append((name, user, parts[-1]))
                    one.send_multipart([parts[0], b"echo " + parts[-1]], zmq.NOBLOCK)
            if self.forgets.is_set():
                self.endpoints.forget_topics()
                self.forgets.clear()
            while bound.announce.poll(0):
                self.joined += bound.announce.recv(zmq.NOBLOCK) == b"\x01"
            if time.monotonic() - announced_s > 0.05:
                announced_s = time.monotonic()
                bound.announce.send(b"head", zmq.NOBLOCK)


def wait_for(condition: Callable[[], object], timeout_s: float = 10.0) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, "did not happen in time"
        time.sleep(0.01)


def try_send(sender: Socket, message: bytes, timeout_s: float = 5.0) -> bool:
    """Whether there was a peer that took it."""
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        try:
            sender.send(message, zmq.NOBLOCK)
        except zmq.Again:
            time.sleep(0.01)
        else:
            return True
    return False


def answer(receiver: Socket, timeout_s: float = 10.0) -> bytes | None:
    """What comes, ``None`` if nothing does."""
    return receiver.recv(zmq.NOBLOCK) if receiver.poll(int(timeout_s * 1e3)) else None


Open = Callable[..., Doors]
"""Doors with these options."""
