"""What the sockets promise: nothing waits, nothing lingers, nothing grows, no file stays."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from unilab_metrics.errors import EndpointError
from unilab_metrics.transport import sockets
from unilab_schema.codec import MAX_MESSAGE_BYTES

Made = Callable[[Any, str], "zmq.Socket[bytes]"]


@pytest.fixture
def endpoint(short_path: Path) -> str:
    return f"ipc://{short_path}/s"


class Bench:
    """Contexts and sockets of one test."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, zmq.Socket[bytes]]] = []

    def open(self, make: Made, endpoint: str) -> zmq.Socket[bytes]:
        ctx = sockets.context()
        try:
            made = make(ctx, endpoint)
        except BaseException:
            sockets.terminate(ctx)
            raise
        self.made.append((ctx, made))
        return made

    def close(self) -> None:
        while self.made:
            ctx, made = self.made.pop()
            sockets.terminate(ctx, [made])


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


def send(sender: zmq.Socket[bytes], message: bytes, timeout_s: float = 10.0) -> None:
    """Sends as soon as there is a peer."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            sender.send(message, zmq.NOBLOCK)
            return
        except zmq.Again:
            assert time.monotonic() < deadline_s, "nobody took the message"
            sender.poll(10)


def receive(receiver: zmq.Socket[bytes], timeout_ms: int = 10_000) -> list[bytes]:
    assert receiver.poll(timeout_ms), "nothing came"
    return receiver.recv_multipart(zmq.NOBLOCK)


@pytest.mark.parametrize(
    ("bind", "connect"),
    [(sockets.ingest, sockets.dealer), (sockets.serve, sockets.request)],
    ids=["ingest", "serve"],
)
def test_a_message_goes_up_and_its_answer_comes_down(
    bench: Bench, endpoint: str, bind: Made, connect: Made
):
    server, client = bench.open(bind, endpoint), bench.open(connect, endpoint)
    send(client, b"up")
    sender, message = receive(server)
    assert message == b"up"
    server.send_multipart([sender, b"down"], zmq.NOBLOCK)
    assert receive(client) == [b"down"]


def test_the_announcer_sees_every_subscription(bench: Bench, endpoint: str):
    announcer = bench.open(sockets.announce, endpoint)
    for _ in range(3):
        listener = bench.open(sockets.listen, endpoint)
        assert receive(announcer) == [b"\x01"]
        announcer.send(b"head", zmq.NOBLOCK)
        assert receive(listener) == [b"head"]


@pytest.mark.parametrize("connect", [sockets.dealer, sockets.request])
def test_without_a_peer_nothing_is_taken(bench: Bench, endpoint: str, connect: Made):
    client = bench.open(connect, endpoint)
    with pytest.raises(zmq.Again):
        client.send(b"lost?", zmq.NOBLOCK)


def test_a_sender_without_a_reader_is_bounded(bench: Bench, endpoint: str):
    bench.open(sockets.ingest, endpoint)
    client = bench.open(sockets.dealer, endpoint)
    send(client, bytes(100_000))
    for _ in range(200):
        try:
            client.send(bytes(100_000), zmq.NOBLOCK)
        except zmq.Again:
            return
    pytest.fail("200 messages of 100 kB were taken without a reader")


def test_a_listener_that_does_not_read_holds_nobody_up(bench: Bench, endpoint: str):
    announcer = bench.open(sockets.announce, endpoint)
    listener = bench.open(sockets.listen, endpoint)
    receive(announcer)
    started_s = time.monotonic()
    for _ in range(20_000):
        announcer.send(bytes(500), zmq.NOBLOCK)
    assert time.monotonic() - started_s < 10
    assert listener.poll(10_000)


def test_a_router_answers_a_peer_that_is_gone_without_waiting(bench: Bench, endpoint: str):
    server = bench.open(sockets.ingest, endpoint)
    client = bench.open(sockets.dealer, endpoint)
    send(client, b"hello")
    sender, _ = receive(server)
    client.close(linger=0)
    for _ in range(1000):
        server.send_multipart([sender, b"cursor"], zmq.NOBLOCK)
    server.send_multipart([b"nobody", b"cursor"], zmq.NOBLOCK)


def test_an_oversized_message_is_refused_and_the_next_one_arrives(bench: Bench, endpoint: str):
    server = bench.open(sockets.ingest, endpoint)
    client = bench.open(sockets.dealer, endpoint)
    send(client, b"first")
    assert receive(server)[1] == b"first"
    send(client, bytes(MAX_MESSAGE_BYTES + 1))
    send(client, bytes(MAX_MESSAGE_BYTES))
    deadline_s = time.monotonic() + 10
    while not server.poll(50):
        # The oversized one cut the connection, and what was queued behind it may be gone.
        assert time.monotonic() < deadline_s
        try:
            client.send(bytes(MAX_MESSAGE_BYTES), zmq.NOBLOCK)
        except zmq.Again:
            continue
    assert len(server.recv_multipart()[1]) == MAX_MESSAGE_BYTES


def test_a_closed_endpoint_leaves_no_file(short_path: Path):
    ctx = sockets.context()
    made = [
        bind(ctx, f"ipc://{short_path}/{name}")
        for name, bind in [("a", sockets.ingest), ("b", sockets.announce), ("c", sockets.serve)]
    ]
    names = sorted(entry.name for entry in short_path.iterdir())
    assert names == ["a", "b", "c"]
    for entry in short_path.iterdir():
        assert stat.S_IMODE(entry.stat().st_mode) == 0o600
    sockets.terminate(ctx, made)
    assert list(short_path.iterdir()) == []
    sockets.terminate(ctx, made)


def test_a_restarted_server_is_found_again_by_its_clients(bench: Bench, endpoint: str):
    client = bench.open(sockets.dealer, endpoint)
    for life in (b"one", b"two"):
        ctx = sockets.context()
        server = sockets.ingest(ctx, endpoint)
        deadline_s = time.monotonic() + 10
        while not server.poll(50):
            # What went to the dead one is lost; that is what rewinding is for.
            assert time.monotonic() < deadline_s
            send(client, life)
        assert receive(server)[1] == life
        sockets.terminate(ctx, [server])


_UNSENT = """
import sys, time, zmq
from unilab_metrics.transport import sockets
ctx = sockets.context()
client = sockets.dealer(ctx, sys.argv[1])
taken = 0
for _ in range(1000):
    try:
        client.send(b"x" * 500, zmq.NOBLOCK)
        taken += 1
    except zmq.Again:
        pass
started = time.monotonic()
if sys.argv[2] == "terminate":
    sockets.terminate(ctx, [client])
print(taken, time.monotonic() - started < 1)
"""


@pytest.mark.parametrize("ending", ["terminate", "forget"])
@pytest.mark.parametrize("peer", ["absent", "stopped"])
def test_unsent_messages_to_a_dead_peer_do_not_hold_up_the_exit(
    endpoint: str, ending: str, peer: str
):
    with server_process(endpoint) if peer == "stopped" else _nobody() as server:
        if server is not None:
            server.send_signal(signal.SIGSTOP)
        started_s = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", _UNSENT, endpoint, ending],
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        took_s = time.monotonic() - started_s
        if server is not None:
            server.send_signal(signal.SIGCONT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1] == "True"
    assert took_s < 10


class _nobody:  # noqa: N801 - reads as a word in the with statement
    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        return None


_SERVER = """
import sys
from unilab_metrics.transport import sockets
ctx = sockets.context()
server = sockets.ingest(ctx, sys.argv[1])
print("bound", flush=True)
sys.stdin.readline()
sockets.terminate(ctx, [server])
"""


class server_process:  # noqa: N801 - as above
    """Another process that has bound an ingest socket."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint

    def __enter__(self) -> subprocess.Popen[str]:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _SERVER, self._endpoint],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "bound\n"
        return self.process

    def __exit__(self, *exception: object) -> None:
        self.process.kill()
        self.process.communicate(timeout=30)


def test_a_context_of_the_parent_is_not_used_by_a_forked_child(bench: Bench, endpoint: str):
    server = bench.open(sockets.ingest, endpoint)
    client = bench.open(sockets.dealer, endpoint)
    send(client, b"parent 1")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            ctx = sockets.context()
            own = sockets.dealer(ctx, endpoint)
            send(own, b"child")
            own.poll(5000)
            sockets.terminate(ctx, [own])
            status = 0
        finally:
            os._exit(status)
    messages: list[bytes] = []
    while len(messages) < 2:
        sender, message = receive(server)
        messages.append(message)
        server.send_multipart([sender, b"seen"], zmq.NOBLOCK)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    send(client, b"parent 2")
    assert receive(server)[1] == b"parent 2"
    assert sorted(messages) == [b"child", b"parent 1"]


def test_an_option_that_fails_closes_the_socket(short_path: Path):
    ctx = sockets.context()
    with pytest.raises(EndpointError):
        sockets.dealer(ctx, f"ipc://{short_path}/{'x' * 200}")
    with pytest.raises(EndpointError):
        sockets.ingest(ctx, f"ipc://{short_path}/missing/s")
    sockets.terminate(ctx)
