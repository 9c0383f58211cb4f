"""A view that is open while the aggregator is killed goes on with every update, each once."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from fault_helper import SEGMENT_BYTES_VARIABLE, interpreter
from real_runs import start, until

from unilab_metrics.storage.segments import list_segments
from unilab_metrics.subscribe.history import HistoryReader, HistoryRecord
from unilab_metrics.subscribe.subscriber import Subscriber
from unilab_metrics.transport import rendezvous
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_schema.updates import Update

TRAINING = """
import sys, time
from pathlib import Path
import unilab_metrics as um

run_dir, stop = Path(sys.argv[1]), Path(sys.argv[2])
with um.init(algorithm="sac", run_dir=run_dir, backends=[]) as publisher:
    iteration = 0
    while not stop.exists():
        publisher.log({"Loss/actor": float(iteration)}, iteration=iteration)
        iteration += 1
        time.sleep(0.01)
"""
KILLS = 3


def _pid(bus_dir: Path, other_than: int = 0) -> int:
    try:
        pid = rendezvous.read(bus_dir).pid
    except Exception:  # noqa: BLE001 - not there, or of the one that was killed
        return 0
    return 0 if pid == other_than else pid


def _updates(records: list[HistoryRecord]) -> list[tuple[int, int, float]]:
    return [
        (record.sequence, record.entry.iteration, float(record.values()[0]))
        for record in records
        if isinstance(record.entry, Update)
    ]


@pytest.mark.slow
def test_an_open_view_misses_and_doubles_nothing_over_kills_of_the_aggregator(
    tmp_path: Path, short_path: Path
) -> None:
    run_dir, stop = tmp_path / "run", tmp_path / "stop"
    bus_dir = bus_directory(run_dir)
    helpers = {
        "UNILAB_METRICS_PYTHON": str(interpreter(short_path)),
        SEGMENT_BYTES_VARIABLE: "100000",
    }
    training = start(TRAINING, str(run_dir), str(stop), **helpers)
    seen: list[HistoryRecord] = []
    lost = 0
    try:
        until(lambda: _pid(bus_dir), 60)
        with Subscriber.attach(run_dir) as live:

            def has_new(count: int = 150, after: int = 0) -> bool:
                seen.extend(live.poll(50))
                return bool(seen) and seen[-1].sequence >= after + count

            until(has_new, 60)
            for _ in range(KILLS):
                killed, before = _pid(bus_dir), seen[-1].sequence
                os.kill(killed, signal.SIGKILL)
                # Nobody stops looking while nobody is there.
                until(lambda killed=killed: has_new(0) and _pid(bus_dir, killed), 60)
                until(lambda before=before: has_new(after=before), 60)
            lost = live.lost_entries
    finally:
        stop.touch()
        training.communicate(timeout=60)
    assert lost == 0
    sequences = [record.sequence for record in seen]
    assert sequences == list(range(sequences[0], sequences[0] + len(sequences)))
    shown = _updates(seen)
    iterations = [iteration for _, iteration, _ in shown]
    assert iterations == list(range(iterations[0], iterations[0] + len(iterations)))
    assert all(value == iteration for _, iteration, value in shown)
    with HistoryReader(bus_dir) as source:
        written: list[HistoryRecord] = []
        while records := source.poll():
            written += records
    told = _updates(written)
    assert [iteration for _, iteration, _ in told] == list(range(len(told)))
    assert shown == [one for one in told if sequences[0] <= one[0] <= sequences[-1]]
    assert int(list_segments(bus_dir, "wal")[-1].name.rsplit("-", 1)[1]) > 0
