"""How long a run needs after the kill of its aggregator and writer, by the age of the run.

    .venv/bin/python benchmarks/bench_long_recovery.py [--updates 3000 30000 60000]

One rank logs three values as fast as the bus takes them. Each time that TensorBoard holds so many
updates, aggregator and writer die of SIGKILL at once, and a subscriber in this process waits until

- `bus.json` names another aggregator,
- a new writer holds its lease,
- TensorBoard holds an update that was logged after the kill.

Beside the wall time, which on a shared machine means little: the processor time that the two new
processes had needed by the last of these. The second of waiting before a helper is started again
is in the wall times.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import tempfile
import time
from multiprocessing.synchronize import Event
from pathlib import Path

from live_run import attached

import unilab_metrics as um
from unilab_metrics.storage.lease import owner_pid
from unilab_metrics.transport.rendezvous import aggregator_lease, bus_directory

LIMIT_S = 900.0
RATE = 400.0
PAUSE_S = 11.0
"""A helper that has lived for less is started again later."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def learn(run_dir: Path, until: Event) -> None:
    """The rank."""
    publisher = um.init(run_dir=run_dir, algorithm="bench", rank=0, world_size=1)
    began, k = time.monotonic(), 0
    while not until.is_set():
        k += 1
        values = {"Loss/actor": float(k), "Loss/critic": 1.0 / k, "Train/mean_reward": -5.0 + k}
        publisher.log(values, iteration=k, env_steps=10 * k)
        time.sleep(max(0.0, began + k / RATE - time.monotonic()))
    publisher.close(30.0)


def cpu_s(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


class Run:
    """A run from outside."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self._leases = {
            "aggregator": aggregator_lease(run_dir),
            "writer": bus_directory(run_dir) / "writer-tensorboard.lease",
        }
        self.subscriber = attached(run_dir, LIMIT_S)

    def pid(self, helper: str) -> int:
        """Who holds the helper's lease; 0 for nobody."""
        return owner_pid(self._leases[helper]) or 0

    def shown_pid(self) -> int:
        """The aggregator that bus.json names."""
        try:
            return json.loads((bus_directory(self.run_dir) / "bus.json").read_text())["pid"]
        except (OSError, ValueError):
            return 0

    def reached(self) -> tuple[int, int]:
        """The newest update that is announced, and the newest in TensorBoard."""
        self.subscriber.poll(20)
        head = self.subscriber.head
        if head is None:
            return 0, 0
        return head.update, max((status.update for status in head.backends), default=0)

    def wait_for(self, update: int) -> None:
        """Until TensorBoard holds it."""
        deadline = time.monotonic() + LIMIT_S
        while self.reached()[1] < update:
            if time.monotonic() > deadline:
                raise TimeoutError(f"update {update} not within {LIMIT_S:.0f} s")

    def kill(self) -> str:
        """Kill both; how long each step took, in words."""
        until = time.monotonic() + PAUSE_S
        while time.monotonic() < until:
            self.reached()
        old = {helper: self.pid(helper) for helper in self._leases}
        announced = self.reached()[0]
        began = time.monotonic()
        for pid in old.values():
            os.kill(pid, signal.SIGKILL)
        steps: dict[str, float] = {}
        deadline = began + LIMIT_S
        while "update" not in steps and time.monotonic() < deadline:
            now = time.monotonic() - began
            if self.shown_pid() not in (0, old["aggregator"]):
                steps.setdefault("bus.json", now)
            if self.pid("writer") not in (0, old["writer"]):
                steps.setdefault("writer", now)
            if len(steps) == 2 and self.reached()[1] > announced:
                steps["update"] = time.monotonic() - began
            time.sleep(0.02)
        cpu = {helper: cpu_s(self.pid(helper)) for helper in self._leases}
        bus = bus_directory(self.run_dir)
        wal, history = (
            sum(path.stat().st_size for path in bus.glob(f"{prefix}-*")) / 1e6
            for prefix in ("wal", "history")
        )
        return (
            f"{announced:9,d}  {wal:7.1f}  {history:8.1f}  {steps['bus.json']:9.1f}"
            f"  {steps['writer']:7.1f}  {steps['update']:7.1f}"
            f"  {cpu['aggregator']:14.2f}  {cpu['writer']:10.2f}"
        )


def main() -> None:
    """Print one line for each age."""
    parser = argparse.ArgumentParser(description="Time to recover, by the age of the run.")
    parser.add_argument("--updates", type=int, nargs="+", default=[3000, 30000, 60000])
    options = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    spawn = multiprocessing.get_context("spawn")
    until = spawn.Event()
    with tempfile.TemporaryDirectory(prefix="um-bench-") as folder:
        os.environ["XDG_STATE_HOME"] = folder
        run_dir = Path(folder) / "run"
        learner = spawn.Process(target=learn, args=(run_dir, until))
        learner.start()
        try:
            run = Run(run_dir)
            print(
                "  updates   wal MB  hist. MB  bus.json s  writer s  update s"
                "  aggregator CPU s  writer CPU s"
            )
            for updates in options.updates:
                run.wait_for(updates)
                print(run.kill(), flush=True)
            run.subscriber.close()
        finally:
            until.set()
            learner.join(60)


if __name__ == "__main__":
    main()
