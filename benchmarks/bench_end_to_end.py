"""How long a value takes from ``log()`` to a subscriber, through every process in between.

A learner publishes 60 tags every 10 ms (and with ``--collector`` a collector beside it, every
5 ms) into a real bus of two processes; a subscriber in this process polls it. The value of
one tag is the publisher's monotonic clock at ``log()``; the latency is the subscriber's clock
minus that. For comparison, in the same run: the same clock value over a bare ZeroMQ PUSH/PULL
between two processes. Run: ``python benchmarks/bench_end_to_end.py [--seconds 10]``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import struct
import tempfile
import time
from collections.abc import Callable
from multiprocessing.synchronize import Event
from pathlib import Path

import zmq
from live_run import attached

import unilab_metrics as um
from unilab_schema.updates import Update

PERIOD_S = 0.010
COLLECTOR_PERIOD_S = 0.005
STAMP = "Bench/stamp"


def paced(period_s: float, until: Event, action: Callable[[int], None]) -> None:
    """Call ``action`` every period until told to stop."""
    started = time.monotonic()
    number = 0
    while not until.is_set():
        number += 1
        action(number)
        time.sleep(max(0.0, started + number * period_s - time.monotonic()))


def learn(run_dir: Path, until: Event) -> None:
    """The learner: 59 constant tags and the stamp."""
    publisher = um.init(run_dir=run_dir, algorithm="bench", task="latency", backends=())
    values = {f"Bench/tag_{number:02d}": float(number) for number in range(59)}

    def log(k: int) -> None:
        publisher.log({**values, STAMP: time.monotonic()}, iteration=k)

    paced(PERIOD_S, until, log)
    publisher.close(10.0)


def collect(run_dir: Path, until: Event) -> None:
    """A collector of the same rank."""
    publisher = um.connect(role="collector", rank=0, run_dir=run_dir)

    def log(n: int) -> None:
        publisher.log({"reward/term": float(n)})

    paced(COLLECTOR_PERIOD_S, until, log)
    publisher.close(10.0)


def push(endpoint: str, until: Event) -> None:
    """The floor's sender."""
    context = zmq.Context()
    socket = context.socket(zmq.PUSH)
    socket.connect(endpoint)
    paced(PERIOD_S, until, lambda _: socket.send(struct.pack("<d", time.monotonic())))
    context.destroy(linger=0)


def over_the_bus(seconds: float, directory: Path, with_collector: bool) -> list[float]:
    """Latencies in milliseconds."""
    run_dir = directory / "run"
    context = multiprocessing.get_context("spawn")
    until = context.Event()
    processes = [context.Process(target=learn, args=(run_dir, until))]
    if with_collector:
        processes.append(context.Process(target=collect, args=(run_dir, until)))
    for process in processes:
        process.start()
    latencies: list[float] = []
    try:
        with attached(run_dir, 20.0) as subscriber:
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                for record in subscriber.poll(100):
                    now = time.monotonic()
                    if isinstance(record.entry, Update):
                        at = record.tags.index(STAMP)
                        latencies.append((now - float(record.values()[at])) * 1e3)
    finally:
        until.set()
        for process in processes:
            process.join(30)
    # The first second holds the start of the processes and the catching up.
    return latencies[int(1 / PERIOD_S) :]


def over_zeromq(seconds: float, directory: Path) -> list[float]:
    """Latencies in milliseconds of PUSH/PULL alone."""
    endpoint = f"ipc://{directory}/floor"
    context = zmq.Context()
    socket = context.socket(zmq.PULL)
    socket.bind(endpoint)
    spawn = multiprocessing.get_context("spawn")
    until = spawn.Event()
    sender = spawn.Process(target=push, args=(endpoint, until))
    sender.start()
    latencies: list[float] = []
    try:
        socket.poll(10_000)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if socket.poll(100):
                (sent,) = struct.unpack("<d", socket.recv())
                latencies.append((time.monotonic() - sent) * 1e3)
    finally:
        until.set()
        sender.join(10)
        context.destroy(linger=0)
    return latencies


def quantiles(latencies: list[float]) -> str:
    """p50, p99 and the greatest."""
    ordered = sorted(latencies)
    p99 = ordered[int(len(ordered) * 0.99)]
    return (
        f"p50 {statistics.median(ordered):7.2f} ms  p99 {p99:7.2f} ms  "
        f"max {ordered[-1]:7.2f} ms  ({len(ordered)} values)"
    )


def main() -> None:
    """Print one line per path."""
    parser = argparse.ArgumentParser(description="From log() to a subscriber, in milliseconds.")
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(prefix="um-bench-") as name:
        directory = Path(name)
        for title, with_collector in (("learner alone", False), ("with a collector", True)):
            home = directory / title.replace(" ", "-")
            home.mkdir()
            latencies = over_the_bus(options.seconds, home, with_collector)
            print(f"bus, {title:18s} {quantiles(latencies)}")
        print(f"bare PUSH/PULL          {quantiles(over_zeromq(options.seconds / 2, directory))}")


if __name__ == "__main__":
    main()
