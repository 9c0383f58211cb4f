"""An alert is in the journal once, whenever the aggregator is killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from real_runs import start, until

from unilab_metrics.subscribe.history import HistoryReader
from unilab_metrics.transport import rendezvous
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_schema.updates import EventUpdate

TRAINING = """
import math, sys, time
from pathlib import Path
import unilab_metrics as um

run_dir, phase = Path(sys.argv[1]), Path(sys.argv[2])
with um.init(
    algorithm="ppo", run_dir=run_dir, backends=[], alerts=["Loss/b > 5 for 3 iterations"]
) as publisher:
    iteration, bad = 0, {"Loss/a": math.nan, "Loss/b": 9.0}
    while not (phase / "stop").exists():
        is_well = (phase / "well").exists()
        values = {"Loss/a": 1.0, "Loss/b": 1.0} if is_well else bad
        publisher.log(values, iteration=iteration)
        iteration += 1
        time.sleep(0.01)
"""


def _events(run_dir: Path) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    with HistoryReader(bus_directory(run_dir)) as source:
        while records := source.poll():
            found += [
                (record.entry.frame.kind, str(record.entry.frame.data["rule"]))
                for record in records
                if isinstance(record.entry, EventUpdate)
                and record.entry.frame.kind in ("alert", "alert_over")
            ]
    return found


@pytest.mark.slow
def test_an_alert_that_is_open_while_the_aggregator_is_killed_is_told_once(tmp_path: Path):
    run_dir, phase = tmp_path / "run", tmp_path / "phase"
    phase.mkdir()
    training = start(TRAINING, str(run_dir), str(phase))
    bus_dir = bus_directory(run_dir)
    try:
        for _ in range(3):
            until((bus_dir / "bus.json").exists, 60)
            before = rendezvous.read(bus_dir)
            until(lambda: len(_events(run_dir)) >= 2, 60)
            os.kill(before.pid, signal.SIGKILL)
            until(lambda pid=before.pid: _has_other(bus_dir, pid), 60)
        (phase / "well").touch()
        until(lambda: len(_events(run_dir)) >= 4, 60)
    finally:
        (phase / "stop").touch()
        training.communicate(timeout=60)
        training.kill()
    events = _events(run_dir)
    assert sorted(events[:2]) == [("alert", "nonfinite"), ("alert", "rule")]
    assert sorted(events[2:]) == [("alert_over", "nonfinite"), ("alert_over", "rule")]


def _has_other(bus_dir: Path, pid: int) -> bool:
    path = bus_dir / "bus.json"
    return path.exists() and rendezvous.read(bus_dir).pid != pid
