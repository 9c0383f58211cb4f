"""What the sidecar costs: processor time and bytes to the terminal, beside a Rich Live panel.

    .venv/bin/pip install --no-deps unilab-rl
    .venv/bin/python benchmarks/bench_sidecar.py [--seconds 6] [--rates 2,100,1000] [--tags 60]

Real processes: a training that logs, its aggregator, and the sidecar on a pseudo-terminal of each
size. The peer is the logger of ``unilab-rl`` where that is installed, else a stand-in of our own
(see ``rich_live_panel.py``). It runs on a terminal of the same size with the same updates, called
by the training itself, so it pays for no socket and no decoder; what the loop alone costs is
measured too. Processor time is the kernel's count for the process, so it leaves out what the machine does beside it; each
figure is of windows of a second, in brackets the smallest and the greatest.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
PEER = (sys.executable, str(HERE / "rich_live_panel.py"))
SIZES = ((80, 24), (120, 40), (160, 48))
TICKS_PER_S = 2
SETTLE_S = 4.0
"""Longer than the window of two seconds, and than the start of either program."""
TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    "os.execvp(sys.argv[1], sys.argv[1:])"
)
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """Per second, one number for each second."""

    cpu_percent: list[float]
    bytes: list[int]


def main() -> None:
    """Print a line per case."""
    parser = argparse.ArgumentParser(
        description="Processor time and bytes of a live view.",
        epilog="The peer is uni_rl's own panel after: pip install --no-deps unilab-rl",
    )
    parser.add_argument("--seconds", type=int, default=6)
    parser.add_argument("--rates", default="2,100,1000")
    parser.add_argument("--tags", default="60")
    parser.add_argument("--without-peer", action="store_true")
    options = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, {peer_name()}")
    for count in (int(word) for word in options.tags.split(",")):
        for rate in (int(word) for word in options.rates.split(",")):
            if not options.without_peer:
                loop = measured([*PEER, str(rate), str(count), "--nothing"], SIZES[0], 3)
                print(f"{rate:>5} updates/s, the peer's loop alone: {words(loop)}", flush=True)
            ours = sidecar(rate, count, options.seconds)
            for size, cost in ours.items():
                case = f"{rate:>5} updates/s, {count:>3} tags, {size[0]}x{size[1]}"
                print(f"{case}  sidecar {words(cost)}", flush=True)
                if not options.without_peer:
                    peer = panel(rate, count, size, options.seconds)
                    shown = f"{words(peer)}  {ratio(peer, cost)}"
                    print(f"{'':>{len(case)}}     peer {shown}", flush=True)


def words(cost: Cost) -> str:
    """The median of the processor time, and per half a second, in which each draws one picture at
    most; the mean of the bytes, since a second may hold one picture or two. Each with its range."""
    cpu, size = cost.cpu_percent, [count / 1e3 for count in cost.bytes]
    return (
        f"{statistics.median(cpu):6.1f} % ({min(cpu):.0f} to {max(cpu):.0f})  "
        f"{statistics.median(cpu) * 10 / TICKS_PER_S:4.0f} ms/tick  "
        f"{statistics.mean(size):6.1f} kB/s ({min(size):.1f} to {max(size):.1f})"
    )


def ratio(peer: Cost, ours: Cost) -> str:
    """How many times dearer the peer is."""
    cpu = statistics.median(peer.cpu_percent) / max(statistics.median(ours.cpu_percent), 0.1)
    size = statistics.mean(peer.bytes) / max(statistics.mean(ours.bytes), 1)
    return f"peer/sidecar {cpu:.1f} cpu, {size:.1f} bytes"


def sidecar(rate: int, count: int, seconds: int) -> dict[tuple[int, int], Cost]:
    """Ours at each size, on one run."""
    costs: dict[tuple[int, int], Cost] = {}
    # An aggregator that is behind still writes for a moment.
    with tempfile.TemporaryDirectory(prefix="um-bench-", ignore_cleanup_errors=True) as directory:
        run_dir = Path(directory) / "run"
        load = subprocess.Popen(
            [sys.executable, HERE / "sidecar_load.py", run_dir, str(rate), str(count)],
            stdin=subprocess.PIPE,
        )
        try:
            _await(run_dir / "bus" / "bus.json")
            for size in SIZES:
                command = [sys.executable, "-m", "unilab_sidecar", str(run_dir)]
                costs[size] = measured(command, size, seconds)
        finally:
            load.communicate(timeout=60)
    return costs


def panel(rate: int, count: int, size: tuple[int, int], seconds: int) -> Cost:
    """The peer."""
    return measured([*PEER, str(rate), str(count)], size, seconds)


def peer_name() -> str:
    """Which of the two it is."""
    name = subprocess.run([*PEER, "--name"], stdout=subprocess.PIPE, text=True, check=True)
    return f"the peer is {name.stdout.strip()}"


def measured(command: Sequence[str], size: tuple[int, int], seconds: int) -> Cost:
    """Runs it on a terminal of that size, and ends it."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", TAKE_TERMINAL, *command],
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
        env=environ(),
    )
    os.close(its)
    try:
        read_for(ours, SETTLE_S)
        cost = Cost([], [])
        for _ in range(seconds):
            cpu_s, began_s = cpu_seconds(process.pid), time.monotonic()
            cost.bytes.append(read_for(ours, 1.0))
            used_s = cpu_seconds(process.pid) - cpu_s
            cost.cpu_percent.append(100 * used_s / (time.monotonic() - began_s))
        if process.poll() is not None:
            sys.exit(f"{command} has ended")
        return cost
    finally:
        process.send_signal(signal.SIGTERM)
        while process.poll() is None:
            read_for(ours, 0.1)
        os.close(ours)


def read_for(descriptor: int, seconds: float) -> int:
    """How many bytes come within that time."""
    count, end_s = 0, time.monotonic() + seconds
    while (left_s := end_s - time.monotonic()) > 0:
        if select.select([descriptor], [], [], left_s)[0]:
            try:
                count += len(os.read(descriptor, 1 << 20))
            except OSError:  # it has ended
                time.sleep(left_s)
    return count


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_S


def environ() -> Mapping[str, str]:
    """Of a terminal that can do what most can."""
    wanted = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
    # What somebody chose for his own view is not measured.
    return {**os.environ, **wanted, "XDG_STATE_HOME": str(Path(os.devnull))}


def _await(path: Path) -> None:
    end_s = time.monotonic() + 30
    while not path.exists():
        if time.monotonic() > end_s:
            sys.exit("no run has begun")
        time.sleep(0.05)


if __name__ == "__main__":
    main()
