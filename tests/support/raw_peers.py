"""Peers that speak ZMTP badly, or with somebody else's bytes, over plain sockets."""

from __future__ import annotations

import contextlib
import random
import select
import socket
import struct
import threading
from pathlib import Path

from unilab_metrics.transport.addresses import parse_tcp

SIGNATURE = b"\xff" + bytes(8) + b"\x7f"


def open_raw(endpoint: str, timeout_s: float = 2.0) -> socket.socket:
    """A plain connection to a ``tcp://`` or ``ipc://`` endpoint."""
    if endpoint.startswith("ipc://"):
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(timeout_s)
        try:
            made.connect(endpoint[len("ipc://") :])
        except OSError:
            made.close()
            raise
    else:
        address = parse_tcp(endpoint)
        made = socket.create_connection((address.host, address.port), timeout_s)
    return made


def greeting(mechanism: bytes, version: tuple[int, int] = (3, 1), *, server: bool = False) -> bytes:
    """What a ZMTP 3 peer says first."""
    return (
        SIGNATURE + bytes(version) + mechanism.ljust(20, b"\0") + bytes([server]) + bytes(31)
    )  # fmt: skip


def command(name: bytes, body: bytes) -> bytes:
    """A ZMTP command, such as HELLO or READY."""
    data = bytes([len(name)]) + name + body
    if len(data) < 256:
        return b"\x04" + bytes([len(data)]) + data
    return b"\x06" + struct.pack(">Q", len(data)) + data


def nonsense(chance: random.Random) -> bytes:
    """The bytes of one bad peer."""
    noise = chance.randbytes(chance.choice([0, 1, 7, 64, 300, 2000]))
    curve, null = greeting(b"CURVE"), greeting(b"NULL")
    return chance.choice(
        [
            noise,
            b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + noise,
            SIGNATURE[: chance.randrange(10)],
            SIGNATURE + noise,
            # ZMTP 1 and 2, which have no mechanisms
            b"\x01\x00" + b"\x05\x00hello",
            SIGNATURE + b"\x01\x05" + b"\x00\x00" + b"\x00\x05hello",
            SIGNATURE + b"\x00" + noise,
            greeting(b"CURVE", (9, 9)) + noise,
            greeting(b"PLAIN") + command(b"HELLO", b"\x04user\x08password"),
            greeting(chance.randbytes(20)) + noise,
            null + command(b"READY", b"\x0bSocket-Type\x00\x00\x00\x06DEALER"),
            null + command(b"READY", b"\x0bSocket-Type\xff\xff\xff\xffDEALER"),
            null + b"\x02" + struct.pack(">Q", 2**62) + noise,
            curve + command(b"HELLO", chance.randbytes(194)),
            curve + command(b"HELLO", b"\x01\x00" + bytes(72) + chance.randbytes(120)),
            curve + command(b"INITIATE", chance.randbytes(400)),
            curve + command(b"MESSAGE", noise),
            curve + b"\x06" + struct.pack(">Q", 2**63) + noise,
            curve + b"\x00\x05hello",
            curve[: chance.randrange(64)],
            bytes(chance.choice(curve) for _ in range(64)),
        ]
    )


def speak(endpoint: str, data: bytes, wait_s: float = 0.0) -> bytes:
    """Say this, and hear what comes back within ``wait_s`` after it."""
    heard = b""
    with contextlib.suppress(OSError), open_raw(endpoint) as made:
        made.sendall(data)
        while wait_s and select.select([made], [], [], wait_s)[0]:
            part = made.recv(65_536)
            if not part:
                break
            heard += part
    return heard


class Tape:
    """A relay that records what its clients send to the server."""

    def __init__(self, endpoint: str) -> None:
        self.recorded: list[bytes] = []
        self._target = endpoint
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.05)
        self.endpoint = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(10)
        self._listener.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                client, _ = self._listener.accept()
                with client, open_raw(self._target) as server:
                    self._relay(client, server)

    def _relay(self, client: socket.socket, server: socket.socket) -> None:
        number = len(self.recorded)
        self.recorded.append(b"")
        while not self._stop.is_set():
            ready, _, _ = select.select([client, server], [], [], 0.05)
            for one in ready:
                data = one.recv(65_536)
                if not data:
                    return
                if one is client:
                    self.recorded[number] += data
                    server.sendall(data)
                else:
                    client.sendall(data)


def socket_path(endpoint: str) -> Path:
    """The file of an ipc endpoint."""
    return Path(endpoint[len("ipc://") :])
