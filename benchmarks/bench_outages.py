"""What ``log()`` costs while the aggregator runs, is absent, stopped, or its disk is full.

    .venv/bin/python benchmarks/bench_outages.py [--seconds 6] [--state stopped ...]

Each state is a training of its own: a process that calls ``um.init()`` and logs 60 values
every 10 ms, with its own aggregator as ``init()`` starts it. In the same process, in turns
with it, the floor: a bare ``os.write`` of as many bytes to the spool's file system. The last
columns are the loop's speed as a share of what was asked for, what lies undelivered at the
end of the measurement, and what the process has grown by meanwhile.

``absent``: the helper's interpreter does not exist, so that it is tried again and again.
``stopped``: SIGSTOP. ``disk full``: no file of the aggregator may grow any more (RLIMIT_FSIZE
of that process), which to it is what a full disk is: EFBIG in place of ENOSPC.
Figures are ratios between lines of one run, not absolute promises.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import numpy as np
import psutil

import unilab_metrics as um
from unilab_metrics.config import PYTHON_VARIABLE
from unilab_metrics.errors import ConnectionFileError
from unilab_metrics.storage.lease import owner_pid
from unilab_metrics.storage.places import spool_root
from unilab_metrics.storage.records import encode_record
from unilab_metrics.transport import rendezvous
from unilab_schema.codec import RecordKind

TAGS = 60
TICK_S = 0.01
TURN_CALLS = 50
SETTLE_S = 1.0
STATES = ("running", "absent", "stopped", "disk full")


class Measured(msgspec.Struct):
    """What one training found; costs in µs."""

    log_p50: float
    log_p99: float
    write_p50: float
    write_p99: float
    speed: float
    unsent: int
    grown_mb: float


def main() -> None:
    """Measure each state and print a table."""
    parser = argparse.ArgumentParser(description="Cost of log() while the aggregator is away.")
    parser.add_argument("--seconds", type=float, default=6.0, help="of the loop, each state")
    parser.add_argument("--state", action="append", choices=STATES, help="default: all")
    parser.add_argument("--train", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        state, run_dir = options.train
        found = train(state, Path(run_dir), options.seconds)
        sys.stdout.write(msgspec.json.encode(found).decode())
        return
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    print(f"{'aggregator':12}{'log()':>10}{'':>10}{'os.write':>10}{'':>10}{'log() /':>10}")
    print(
        f"{'':12}{'p50 µs':>10}{'p99 µs':>10}{'p50 µs':>10}{'p99 µs':>10}{'os.write':>10}"
        f"{'speed':>9}{'unsent':>9}{'grown MB':>10}"
    )
    for state in options.state or STATES:
        m = in_a_process(state, options.seconds)
        print(
            f"{state:12}{m.log_p50:10.1f}{m.log_p99:10.1f}{m.write_p50:10.1f}{m.write_p99:10.1f}"
            f"{m.log_p50 / m.write_p50:10.2f}{m.speed:8.1%}{m.unsent:9,}{m.grown_mb:10.1f}"
        )


def in_a_process(state: str, seconds: float) -> Measured:
    """A training in a process of its own, where its helpers and folders are thrown away."""
    with tempfile.TemporaryDirectory(prefix="um-bench-") as folder:
        places = {"XDG_STATE_HOME": folder}
        if state == "absent":
            places[PYTHON_VARIABLE] = f"{folder}/no/python"
        arguments = ["--seconds", str(seconds), "--train", state, f"{folder}/run"]
        done = subprocess.run(
            [sys.executable, os.path.abspath(__file__), *arguments],
            env=os.environ | places,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        return msgspec.json.decode(done.stdout, type=Measured)


def train(state: str, run_dir: Path, seconds: float) -> Measured:
    """The loop, with the aggregator in the state that is asked for."""
    publisher = um.init(algorithm="bench", task="outages", run_dir=run_dir)
    values = {f"Loss/member_{n}": n * 1.1 for n in range(TAGS)}
    for number in range(200):
        publisher.log(values, iteration=number)
    pid = 0 if state == "absent" else aggregator_of(run_dir)
    time.sleep(SETTLE_S)
    put_into(state, pid)
    before = psutil.Process().memory_info().rss
    with tempfile.NamedTemporaryFile(dir=spool_root(), buffering=0) as bare:
        record = encode_record(RecordKind.ITERATION, 1, bytes(8 * TAGS + 40))
        logged: list[int] = []
        written: list[int] = []
        number = 200
        began = time.monotonic()
        clock = time.perf_counter_ns
        ticks = 0
        while ticks * TICK_S < seconds:
            for costs in (logged, written):
                due = time.perf_counter()
                for _ in range(TURN_CALLS):
                    due += TICK_S
                    time.sleep(max(due - time.perf_counter(), 0.0))
                    number += 1
                    start = clock()
                    if costs is logged:
                        publisher.log(values, iteration=number)
                    else:
                        os.write(bare.fileno(), record)
                    costs.append(clock() - start)
                ticks += TURN_CALLS
        speed = ticks * TICK_S / (time.monotonic() - began)
    grown = psutil.Process().memory_info().rss - before
    unsent = publisher.unsent
    if state == "stopped":
        os.kill(pid, signal.SIGCONT)
    elif state == "disk full":
        resource.prlimit(
            pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        )
    publisher.close(1.0 if state == "absent" else 20.0)
    log_p50, log_p99 = quantiles_us(logged)
    write_p50, write_p99 = quantiles_us(written)
    return Measured(log_p50, log_p99, write_p50, write_p99, speed, unsent, grown / 1e6)


def quantiles_us(costs_ns: list[int]) -> tuple[float, float]:
    """Median and 99th percentile."""
    p50, p99 = np.percentile(costs_ns, (50, 99)) / 1e3
    return float(p50), float(p99)


def put_into(state: str, pid: int) -> None:
    """Stop the aggregator, or fill its disk."""
    if state == "stopped":
        os.kill(pid, signal.SIGSTOP)
    elif state == "disk full":
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


def aggregator_of(run_dir: Path) -> int:
    """The pid of the aggregator that holds the run's lease, once it listens."""
    deadline = time.monotonic() + 20
    while True:
        try:
            file = rendezvous.read(rendezvous.bus_directory(run_dir))
        except ConnectionFileError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
            continue
        if owner_pid(rendezvous.aggregator_lease(run_dir)) == file.pid:
            return file.pid


if __name__ == "__main__":
    main()
