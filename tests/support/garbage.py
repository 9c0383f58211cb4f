"""Messages that no part can read, and peers that send them."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zmq

from unilab_metrics.storage.filesystem import boot_id
from unilab_metrics.storage.records import encode_record
from unilab_metrics.transport import sockets
from unilab_schema.codec import MAX_MESSAGE_BYTES, decode_downward, encode_message
from unilab_schema.control import Batch, Cursor, Hello, Reject
from unilab_schema.identity import Identity, RunInfo, SourceKey
from unilab_schema.requests import Fetch

OVERSIZED = bytes(MAX_MESSAGE_BYTES + 1)


def garbage(rng: random.Random) -> bytes:
    """One message: random, truncated, of an unknown version or kind, deeply nested, empty."""
    good = encode_message(rng.choice((Fetch(1, 2), Batch(bytes(16), 1, 2, 3, b"um\x01"))))
    return rng.choice(
        (
            rng.randbytes(rng.randrange(1, 200)),
            good[: rng.randrange(1, len(good))],
            bytes([rng.randrange(2, 256)]) + good[1:],
            good.replace(b"fetch", b"fetsh").replace(b"batch", b"batsh"),
            b"\x01" + b"\x91" * rng.randrange(1, 4000),
            b"\x01" + b"\x81\xa1x" * rng.randrange(1, 1000),
            b"",
        )
    )


def garbage_messages(seed: int, count: int) -> Iterator[bytes]:
    """Always the same ones."""
    rng = random.Random(seed)
    pool = [garbage(rng) for _ in range(min(count, 2000))]
    for at in range(count):
        yield pool[at % len(pool)]


def identity(lease: Path, rank: int = 7, role: str = "collector") -> Identity:
    """A source of this process; its spool is none that an aggregator would look into."""
    now = time.monotonic_ns()
    return Identity(
        SourceKey(rank, role),
        os.urandom(16),
        os.getpid(),
        "here",
        boot_id(),
        os.fspath(lease.parent),
        os.fspath(lease),
        now,
        time.time_ns(),
        1,
        RunInfo("ppo"),
    )


class RawPeer:
    """A peer that sends what it likes, as fast as it is taken. Use it in a ``with`` block."""

    def __init__(self, kind: int, endpoint: str) -> None:
        self._context = sockets.context()
        self.socket: zmq.Socket[bytes] = self._context.socket(kind)
        self.socket.set(zmq.LINGER, 0)
        self.socket.set(zmq.SNDHWM, 0 if kind == zmq.XSUB else 1000)
        self.socket.set(zmq.RCVHWM, 100_000)
        self.socket.connect(endpoint)

    def __enter__(self) -> RawPeer:  # noqa: PYI034 - typing.Self is of Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        sockets.terminate(self._context, [self.socket])

    def send(self, *parts: bytes, timeout_ms: int = 30_000) -> None:
        """Wait for room, then send."""
        assert self.socket.poll(timeout_ms, zmq.POLLOUT), "nobody takes it"
        self.socket.send_multipart(parts)

    def answers(self) -> list[Any]:
        """What has come back so far."""
        found: list[Any] = []
        while self.socket.poll(0):
            found.append(decode_downward(self.socket.recv()))
        return found

    def greet(self, who: Identity) -> None:
        """Say Hello until it is taken."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            self.send(encode_message(Hello(who, 1, 0, time.monotonic_ns(), time.time_ns())))
            if self.socket.poll(1000):
                answer = decode_downward(self.socket.recv())
                if isinstance(answer, Cursor):
                    return
                assert isinstance(answer, Reject)
                time.sleep(0.1)
        raise AssertionError("the Hello was not taken")


def record(kind: int, sequence: int, payload: bytes) -> bytes:
    """A whole record of a source."""
    return encode_record(kind, sequence, payload)
