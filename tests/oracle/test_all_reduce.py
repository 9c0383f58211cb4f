"""Four gloo ranks over the real bus give what all_reduce gives, also after an outage."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from own_tags import without_bus
from real_runs import until

from unilab_metrics.errors import ConnectionFileError
from unilab_metrics.run.summary import read_summary
from unilab_metrics.storage.lease import is_free
from unilab_metrics.subscribe.history import HistoryReader
from unilab_metrics.transport import rendezvous
from unilab_metrics.transport.rendezvous import aggregator_lease
from unilab_schema.updates import Update

WORLD = 4
RANKS_S = 240
"""Eight processes that wait for each other take long where others are at work: 10 s alone, 115 s
beside five busy ones on two cores."""
SCRIPT = Path(__file__).parent.parent / "support" / "gloo_rank.py"


def start(
    run_dir: Path, out_dir: Path, iterations: int, mode: str
) -> list[subprocess.Popen[bytes]]:
    return [
        subprocess.Popen(
            [sys.executable, SCRIPT, run_dir, out_dir, str(iterations), mode],
            env={
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": str(WORLD),
                "LOCAL_RANK": str(rank),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": "29501",
                "OMP_NUM_THREADS": "1",
            },
            cwd=out_dir,
        )
        for rank in range(WORLD)
    ]


def finish(ranks: list[subprocess.Popen[bytes]], run_dir: Path) -> None:
    """Wait for the ranks, and for the aggregator to be done with what they have left to it."""
    try:
        assert [rank.wait(RANKS_S) for rank in ranks] == [0] * len(ranks)
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    until(lambda: read_summary(run_dir) is not None and is_free(aggregator_lease(run_dir)))


def sealed(run_dir: Path) -> list[tuple[Update, dict[str, float]]]:
    reader = HistoryReader(rendezvous.bus_directory(run_dir))
    try:
        found: list[tuple[Update, dict[str, float]]] = []
        while records := reader.poll():
            for record in records:
                if isinstance(record.entry, Update):
                    pairs = zip(record.tags, record.values().tolist(), strict=True)
                    found.append((record.entry, without_bus(pairs)))
        return found
    finally:
        reader.close()


@pytest.mark.slow
@pytest.mark.timeout(RANKS_S + 120)
def test_mean_and_sum_over_ranks_equal_all_reduce(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    finish(start(run_dir, tmp_path, 30, "plain"), run_dir)
    references = json.loads((tmp_path / "reference.json").read_text())
    updates = sealed(run_dir)
    assert [update.iteration for update, _ in updates] == list(range(30))
    for (update, values), reference in zip(updates, references, strict=True):
        assert (update.ranks_reported, update.ranks_expected) == (WORLD, WORLD)
        assert values == {
            tag: pytest.approx(value, rel=1e-12, abs=1e-12) for tag, value in reference.items()
        }


def aggregator_pid(run_dir: Path) -> int:
    deadline = time.monotonic() + RANKS_S
    while True:
        try:
            return rendezvous.read(rendezvous.bus_directory(run_dir)).pid
        except ConnectionFileError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.timeout(RANKS_S + 120)
def test_reports_land_in_the_same_iterations_after_an_outage(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    ranks = start(run_dir, tmp_path, 400, "collector")
    pid = aggregator_pid(run_dir)
    reader = HistoryReader(rendezvous.bus_directory(run_dir))
    deadline = time.monotonic() + RANKS_S
    while not any(isinstance(r.entry, Update) for r in reader.poll()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    reader.close()
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(3.0)  # the outage itself
    finally:
        os.kill(pid, signal.SIGCONT)
    finish(ranks, run_dir)
    updates = sealed(run_dir)
    assert [update.iteration for update, _ in updates] == list(range(400))
    for update, values in updates:
        k = update.iteration
        mean_over_ranks = sum(10.0 * rank for rank in range(WORLD)) / WORLD
        assert values["reward/term"] == pytest.approx(100.0 * k + mean_over_ranks + 2.0), k
