"""A process that reads nothing for a while outlives the TCP peers that go meanwhile."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
import zmq

from unilab_metrics.transport import sockets
from unilab_metrics.transport.addresses import parse_tcp
from unilab_metrics.transport.keys import CurveClient, CurveServer

SERVER_PUBLIC, SERVER_SECRET = (key.decode() for key in zmq.curve_keypair())
SERVER = """
import sys
from unilab_metrics.transport import sockets
from unilab_metrics.transport.addresses import parse_tcp
from unilab_metrics.transport.keys import CurveServer

endpoint, public, secret = sys.argv[1:]
context = sockets.context()
made = sockets.ingest(context, endpoint)
bound = sockets.bind_tcp(made, parse_tcp("tcp://127.0.0.1:*"), CurveServer(public, secret))
print(bound.endpoint, flush=True)
sys.stdin.readline()
count = 0
while made.poll(1000):
    sockets.receive(made)
    count += 1
sockets.terminate(context, [made])
print(count)
"""
STAYS_S = 0.5
"""Until what it sends waits on the way, and less than anybody takes to find that odd."""
ASKS_S = 1.5
"""In which a heartbeat would be due more than once."""


def client(endpoint: str) -> tuple[zmq.Context[zmq.Socket[bytes]], zmq.Socket[bytes]]:
    public, secret = (key.decode() for key in zmq.curve_keypair())
    context = sockets.context()
    curve = CurveClient(SERVER_PUBLIC, public, secret, Path("of-the-test"))
    return context, sockets.dealer(context, endpoint, curve)


def send_what_is_taken(sender: zmq.Socket[bytes], seconds: float) -> int:
    count, end_s = 0, time.monotonic() + seconds
    while time.monotonic() < end_s:
        try:
            sender.send(bytes(10_000), zmq.NOBLOCK)
            count += 1
        except zmq.Again:
            time.sleep(0.01)
    return count


@pytest.mark.slow
def test_a_peer_that_goes_while_nobody_reads_does_not_end_the_process(short_path: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, f"ipc://{short_path}/s", SERVER_PUBLIC, SERVER_SECRET],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        context, sender = client(server.stdout.readline().strip())
        try:
            while not sender.poll(100, zmq.POLLOUT):
                assert server.poll() is None
            sent = send_what_is_taken(sender, STAYS_S)
        finally:
            sockets.terminate(context, [sender])
        assert sent > sockets.BATCH_QUEUE, "some of it waits"
        time.sleep(ASKS_S)
        output, errors = server.communicate("read\n", timeout=60)
    finally:
        server.kill()
        server.communicate()
    assert server.returncode == 0, errors
    assert int(output) >= sockets.BATCH_QUEUE


def test_no_connection_over_tcp_has_heartbeats_of_libzmq(short_path: Path) -> None:
    context = sockets.context()
    made = sockets.ingest(context, f"ipc://{short_path}/s")
    try:
        curve = CurveServer(SERVER_PUBLIC, SERVER_SECRET)
        bound = sockets.bind_tcp(made, parse_tcp("tcp://127.0.0.1:*"), curve)
        other, sender = client(bound.endpoint)
        try:
            for one in (made, sender):
                assert one.get(zmq.HEARTBEAT_IVL) == 0
                assert one.get(zmq.TCP_MAXRT) == sockets.TCP_GONE_MS
        finally:
            sockets.terminate(other, [sender])
    finally:
        sockets.terminate(context, [made])
