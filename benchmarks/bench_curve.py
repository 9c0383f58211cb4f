"""What CURVE over TCP costs beside ipc: processor time and round trips of a source's messages.

    .venv/bin/python benchmarks/bench_curve.py [--messages 20000]

A client in this process sends messages to the aggregator's own doors (its sockets with their
authentication) in another process, which answers each one with 60 bytes as a Cursor is.
Per way and size: the round trip of one message at a time, and the processor time of both
processes per message when 64 are under way. The last columns are ratios to ipc.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
import zmq

from unilab_metrics.storage.filesystem import private_directory
from unilab_metrics.transport import keys, sockets
from unilab_metrics.transport.allow_list import PUBLISH
from unilab_metrics.transport.endpoints import Endpoints
from unilab_metrics.transport.keys import CurveClient

SIZES = (512, 64 * 1024)
UNDER_WAY = 64
ANSWER = bytes(60)
Socket = zmq.Socket[bytes]


class Found(NamedTuple):
    """Microseconds."""

    trip_p50: float
    trip_p99: float
    cpu: float


def main() -> None:
    """Print one line per way and size."""
    parser = argparse.ArgumentParser(description="CURVE over TCP beside ipc.")
    parser.add_argument("--messages", type=int, default=20_000, help="of 512 bytes, each way")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(Path(options.serve))
        return
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(prefix="um-bench-") as folder:
        bus_dir = private_directory(Path(folder) / "bus")
        server = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--serve", os.fspath(bus_dir)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert server.stdout is not None
            ipc, tcp = server.stdout.readline().split()
            curve = keys.read_client(keys.key_path(bus_dir, PUBLISH), PUBLISH)
            compare(server.pid, {"ipc": (ipc, None), "tcp + CURVE": (tcp, curve)}, options.messages)
        finally:
            server.terminate()
            server.wait()


def compare(server: int, ways: dict[str, tuple[str, CurveClient | None]], messages: int) -> None:
    """Measure and print."""
    print(
        f"{'':14}{'bytes':>8}{'trip p50':>10}{'p99':>9}{'cpu':>9}{'trip':>9}{'cpu':>8}\n"
        f"{'':14}{'':8}{'µs':>10}{'µs':>9}{'µs':>9}{'× ipc':>9}{'× ipc':>8}"
    )
    for size in SIZES:
        count = max(messages * SIZES[0] // size, 1000)
        base: Found | None = None
        for name, (endpoint, curve) in ways.items():
            found = measure(server, endpoint, curve, bytes(size), count)
            base = base or found
            print(
                f"{name:14}{size:8,}{found.trip_p50:10.1f}{found.trip_p99:9.1f}{found.cpu:9.1f}"
                f"{found.trip_p50 / base.trip_p50:9.2f}{found.cpu / base.cpu:8.2f}"
            )


def measure(
    server: int, endpoint: str, curve: CurveClient | None, message: bytes, count: int
) -> Found:
    """One way and size."""
    context = sockets.context()
    client = sockets.dealer(context, endpoint, curve)
    try:
        send(client, message)
        client.recv()
        trips: list[int] = []
        for _ in range(count // 10):
            before = time.perf_counter_ns()
            send(client, message)
            client.recv()
            trips.append(time.perf_counter_ns() - before)
        both = (psutil.Process(), psutil.Process(server))
        used = -sum(sum(process.cpu_times()[:2]) for process in both)
        sent = answered = 0
        while answered < count:
            while sent < count and sent - answered < UNDER_WAY:
                send(client, message)
                sent += 1
            client.recv()
            answered += 1
        used += sum(sum(process.cpu_times()[:2]) for process in both)
    finally:
        sockets.terminate(context, [client])
    p50, p99 = np.percentile(trips, (50, 99)) / 1e3
    return Found(float(p50), float(p99), used / count * 1e6)


def send(client: Socket, message: bytes) -> None:
    """As soon as there is a peer and room."""
    while True:
        try:
            client.send(message, zmq.NOBLOCK)
        except zmq.Again:
            client.poll(1, zmq.POLLOUT)
        else:
            return


def serve(bus_dir: Path) -> None:
    """The other process: the aggregator's doors, and an answer to whatever comes in."""
    context = sockets.context()
    stem = f"ipc://{bus_dir}/{os.getpid()}"
    doors = Endpoints(context, stem, bus_dir, bind="tcp://127.0.0.1", say=print)
    poller = zmq.Poller()
    doors.register(poller)
    print(doors.ipc.ingest, doors.tcp.ingest, flush=True)
    ingest = doors.sockets.ingest
    while True:
        poller.poll()
        doors.attend()
        while True:
            try:
                parts, _ = sockets.receive(ingest)
            except zmq.Again:
                break
            ingest.send_multipart([parts[0], ANSWER])


if __name__ == "__main__":
    main()
