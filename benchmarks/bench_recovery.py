"""How long a run needs after the kill of each of its processes, in starts of an interpreter.

    .venv/bin/python benchmarks/bench_recovery.py [--times 3]

Two ranks log 60 values every 10 ms. One process after the other dies of SIGKILL, and a
subscriber in this process waits for what the kill interrupted:

- aggregator: the first update whose iteration was logged after the kill;
- writer: TensorBoard holds an update that was announced after the kill;
- both: that, too;
- rank 1: the first update that was sealed without it, with n = 1 of 2 ranks;
- subscriber: a new one has the newest value of every tag and the newest update.

The floor, in the same run: the start of an interpreter that imports what an aggregator does.
A helper that had lived for 10 s is started again after 1 s, which the times include; so the
kills lie 11 s apart.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.context import SpawnProcess
from multiprocessing.synchronize import Event
from pathlib import Path

from live_run import attached

import unilab_metrics as um
from unilab_metrics.storage.lease import owner_pid
from unilab_metrics.transport.rendezvous import aggregator_lease, bus_directory
from unilab_schema.updates import Update

PERIOD_S = 0.010
LIMIT_S = 60.0
PAUSE_S = 11.0
STAMP = "Bench/unix_s"
_IMPORTS = "import unilab_metrics.aggregate.aggregator, unilab_metrics.cli.processes"


def learn(run_dir: Path, rank: int, began_unix_s: float, until: Event) -> None:
    """One rank."""
    publisher = um.init(run_dir=run_dir, algorithm="bench", rank=rank, world_size=2)
    values = {f"Bench/tag_{number:02d}": float(number) for number in range(59)}
    while not until.is_set():
        # Ranks agree about it without a word, also one that comes later.
        number = int((time.time() - began_unix_s) / PERIOD_S)
        publisher.log({**values, STAMP: time.time()}, iteration=number)
        time.sleep(max(0.0, began_unix_s + (number + 1) * PERIOD_S - time.time()))
    publisher.close(30.0)


class Training:
    """Two ranks with their helpers, and a subscriber."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self._spawn = multiprocessing.get_context("spawn")
        self._until = self._spawn.Event()
        self._began_unix_s = time.time()
        self._ranks = [self._rank(0), self._rank(1)]
        self.subscriber = attached(run_dir, LIMIT_S)
        self.wait(lambda: self.writer_has(1))

    def _rank(self, rank: int) -> SpawnProcess:
        arguments = (self.run_dir, rank, self._began_unix_s, self._until)
        process = self._spawn.Process(target=learn, args=arguments)
        process.start()
        return process

    def wait(
        self, condition: Callable[[], bool], each: Callable[[Update, float], None] | None = None
    ) -> float:
        """Poll until the condition holds; seconds since the call."""
        began = time.monotonic()
        while not condition():
            for record in self.subscriber.poll(20):
                if isinstance(record.entry, Update) and each is not None:
                    at = record.tags.index(STAMP)
                    each(record.entry, float(record.values()[at]))
            if time.monotonic() - began > LIMIT_S:
                raise TimeoutError(f"not within {LIMIT_S:.0f} s")
        return time.monotonic() - began

    def update_after(self, unix_s: float, ranks: int) -> float:
        """Seconds until an update comes of what ``ranks`` ranks logged after that time."""
        found: list[Update] = []

        def look(update: Update, logged_unix_s: float) -> None:
            if logged_unix_s > unix_s and update.ranks_reported == ranks:
                found.append(update)

        return self.wait(lambda: bool(found), look)

    def writer_has(self, update: int) -> bool:
        """Whether TensorBoard holds the update, as far as it is announced."""
        head = self.subscriber.head
        return head is not None and any(status.update >= update for status in head.backends)

    def writer_catches_up(self) -> float:
        """Seconds until TensorBoard holds more than was announced at the call."""
        head = self.subscriber.head
        assert head is not None
        wanted = head.update + 1
        return self.wait(lambda: self.writer_has(wanted))

    def pid(self, helper: str) -> int:
        """The helper that holds its lease."""
        lease = aggregator_lease(self.run_dir)
        if helper == "writer":
            lease = bus_directory(self.run_dir) / "writer-tensorboard.lease"
        found: list[int] = []

        def is_held() -> bool:
            pid = owner_pid(lease)
            found[:] = [pid] if pid else []
            return bool(pid)

        self.wait(is_held)
        return found[0]

    def measured(self, measure: Callable[[], float]) -> float:
        """The seconds that ``measure`` returns, when every helper has lived for long."""
        until_s = time.monotonic() + PAUSE_S
        self.wait(lambda: time.monotonic() > until_s)
        return measure()

    def kill(self, *helpers: str) -> float:
        """Kill them at once; the wall clock then."""
        pids = [self.pid(helper) for helper in helpers]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return time.time()

    def kill_rank_1(self) -> float:
        """Kill it; another one takes its place afterwards."""
        self._ranks[1].kill()
        killed_unix_s = time.time()
        seconds = self.update_after(killed_unix_s, 1)
        self._ranks[1].join()
        self._ranks[1] = self._rank(1)
        self.update_after(killed_unix_s, 2)
        return seconds

    def join_anew(self) -> float:
        """Seconds until a new subscriber has the whole picture."""
        began = time.monotonic()
        with attached(self.run_dir, LIMIT_S) as joined:
            has_entries = False
            while joined.snapshot() is None or not has_entries:
                has_entries = bool(joined.poll(5)) or has_entries
        return time.monotonic() - began

    def end(self) -> None:
        """Let the ranks end, and everything with them."""
        self._until.set()
        self.subscriber.close()
        for process in self._ranks:
            process.join(40)


def start_of_an_interpreter() -> float:
    """Seconds."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", _IMPORTS], check=True)
    return time.monotonic() - began


def main() -> None:
    """Print one line per kind of kill."""
    parser = argparse.ArgumentParser(description="Time to recover from a kill of each process.")
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    floor = statistics.median(start_of_an_interpreter() for _ in range(5))
    print(f"{'start of an interpreter':28}{floor:8.2f} s")
    with tempfile.TemporaryDirectory(prefix="um-bench-") as folder:
        os.environ["XDG_STATE_HOME"] = folder
        training = Training(Path(folder) / "run")
        try:
            kinds: dict[str, Callable[[], float]] = {
                "aggregator": lambda: training.update_after(training.kill("aggregator"), 2),
                "writer": lambda: training.kill("writer") and training.writer_catches_up(),
                "both": lambda: (
                    training.kill("aggregator", "writer") and training.writer_catches_up()
                ),
                "rank 1": training.kill_rank_1,
                "subscriber": training.join_anew,
            }
            for name, measure in kinds.items():
                times = [training.measured(measure) for _ in range(options.times)]
                middle = statistics.median(times)
                print(
                    f"{name:28}{middle:8.2f} s  {middle / floor:6.1f} starts   "
                    f"from {min(times):.2f} to {max(times):.2f} s"
                )
        finally:
            training.end()


if __name__ == "__main__":
    main()
