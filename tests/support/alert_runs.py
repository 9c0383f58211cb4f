"""Trainings whose values a test chooses, and what their journals say of alerts."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from real_runs import start, until

from unilab_metrics.subscribe.history import HistoryReader
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_schema.alerts import ALERT, ALERT_OVER
from unilab_schema.frames import EventFrame
from unilab_schema.updates import EventUpdate

_TRAINING = """
import math, sys, time
from pathlib import Path
import unilab_metrics as um

run_dir, folder, backends = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3].split()
with um.init(algorithm="ppo", run_dir=run_dir, backends=backends, alerts=sys.argv[4:]) as publisher:
    iteration = 0
    while not (folder / "stop").exists():
        values = {name: 9.0 if (folder / name).exists() else 1.0 for name in ("a", "b")}
        values["c"] = math.nan if (folder / "nan").exists() else 1.0
        publisher.log({f"Loss/{name}": value for name, value in values.items()}, iteration=iteration)
        iteration += 1
        time.sleep(0.01)
"""

_COLLECTOR = """
import sys, time
from pathlib import Path
import unilab_metrics as um

with um.connect(role="collector") as publisher:
    steps = 0
    while not (Path(sys.argv[1]) / "stop").exists():
        steps += 8
        publisher.log({"reward/upright": 1.0}, env_steps=steps)
        time.sleep(0.02)
"""


class AlertRun:
    """``process``: the training. ``folder``: files there choose its values: ``a`` and ``b`` make
    these 9, ``nan`` makes ``Loss/c`` NaN."""

    def __init__(self, folder: Path, process: subprocess.Popen[str]) -> None:
        self.folder, self.run_dir, self.process = folder, folder / "run", process
        self.bus_dir = bus_directory(self.run_dir)

    def set(self, *names: str) -> None:
        for name in names:
            (self.folder / name).touch()

    def unset(self, *names: str) -> None:
        for name in names:
            (self.folder / name).unlink()

    def events(self) -> list[EventFrame]:
        """Alerts and their ends, as the journal has them."""
        return alert_events(self.run_dir)

    def numbered_events(self) -> list[tuple[int, EventFrame]]:
        """Each with its update sequence."""
        return numbered_events(self.run_dir)

    def told(self) -> list[tuple[str, str]]:
        """Of each its kind and the alert's rule."""
        return [(frame.kind, str(frame.data["rule"])) for frame in self.events()]


def alert_events(run_dir: Path) -> list[EventFrame]:
    """Alerts and their ends, as a run's journal has them."""
    return [frame for _, frame in numbered_events(run_dir)]


def numbered_events(run_dir: Path) -> list[tuple[int, EventFrame]]:
    """Each with its update sequence."""
    found: list[tuple[int, EventFrame]] = []
    with HistoryReader(bus_directory(run_dir)) as source:
        while records := source.poll():
            found += [
                (record.sequence, record.entry.frame)
                for record in records
                if isinstance(record.entry, EventUpdate)
                and record.entry.frame.kind in (ALERT, ALERT_OVER)
            ]
    return found


@contextmanager
def alert_run(
    folder: Path, *rules: str, backends: str = "", **environment: str
) -> Iterator[AlertRun]:
    """About 90 iterations a second until the block ends."""
    code = (_TRAINING, str(folder / "run"), str(folder), backends)
    training = start(*code, *rules, **environment)
    run = AlertRun(folder, training)
    try:
        until((run.bus_dir / "bus.json").exists, 60)
        yield run
    finally:
        run.set("stop")
        try:
            training.communicate(timeout=60)
        finally:
            training.kill()
            training.communicate()


def collector_of(run: AlertRun) -> subprocess.Popen[str]:
    """A process that connects to the run, and ends with it."""
    return start(_COLLECTOR, str(run.folder), UNILAB_METRICS_RUN=str(run.run_dir))
