"""An aggregator that dies on the way of an alert into the journal: the alert is told once."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from alert_runs import alert_events
from fault_helper import SEGMENT_BYTES_VARIABLE, interpreter
from fault_runs import side_by_side
from real_runs import start

from unilab_metrics.config import PYTHON_VARIABLE
from unilab_metrics.crash_points import POINTS_VARIABLE, TOKENS_VARIABLE

PERIOD, BAD, ALERTS = 80, 40, 5
TIMES = 3
POINTS = {
    "wal": f"aggregator.wal@2x{TIMES}",
    "wal_written": f"aggregator.wal_written@1x{TIMES}",
    "history": f"aggregator.history@2x{TIMES}",
    "committed": f"aggregator.committed@1x{TIMES}",
}
TRAINING = """
import math, os, sys, time
from pathlib import Path
import unilab_metrics as um

sys.path.insert(0, sys.argv[2])
from fault_helper import hurry_restarts

hurry_restarts()
tokens = Path(sys.argv[3])
period, bad, alerts, times = map(int, sys.argv[4:])
with um.init(
    algorithm="ppo", run_dir=Path(sys.argv[1]), backends=[], alerts=["Loss/b > 5"]
) as publisher:
    for iteration in range(period * alerts):
        is_bad = iteration % period < bad
        values = {"Loss/a": math.nan, "Loss/b": 9.0} if is_bad else {"Loss/a": 1.0, "Loss/b": 1.0}
        publisher.log(values, iteration=iteration)
        time.sleep(0.015)
    # Each aggregator dies of what comes, however long it takes to start; and close() would wait
    # 10 s only for one that has never answered.
    ends_s = time.monotonic() + 120
    while time.monotonic() < ends_s and (len(os.listdir(tokens)) < times or publisher.unsent > 99):
        iteration += 1
        publisher.log({"Loss/a": 1.0, "Loss/b": 1.0}, iteration=iteration)
        time.sleep(0.015)
    assert publisher.close(90), publisher.errors
"""


def _faults(folder: Path, points: str) -> list[str]:
    tokens = folder / "tokens"
    tokens.mkdir(parents=True)
    arguments = (folder / "run", Path(__file__).parents[1] / "support", tokens)
    training = start(
        TRAINING,
        *map(str, (*arguments, PERIOD, BAD, ALERTS, TIMES)),
        **{
            PYTHON_VARIABLE: os.fspath(interpreter(folder)),
            POINTS_VARIABLE: points,
            TOKENS_VARIABLE: os.fspath(tokens),
            SEGMENT_BYTES_VARIABLE: "16384",
        },
    )
    try:
        _, errors = training.communicate(timeout=180)
    finally:
        training.kill()
        training.communicate()
    if training.returncode:
        # Whoever completes the run alerts nobody.
        return [f"the training ended with {training.returncode}: {errors}"]
    # The aggregator may not have ended yet.
    recover = [sys.executable, "-m", "unilab_metrics", "recover", str(folder / "run")]
    done = subprocess.run(
        [*recover, "--wait", "30"], capture_output=True, text=True, timeout=90, check=False
    )
    if done.returncode:
        return [f"recover ended with {done.returncode}: {done.stderr}"]
    deaths = len([*tokens.iterdir()])
    faults = [] if deaths == TIMES else [f"died {deaths} times: {errors}"]
    told = [(e.kind, str(e.data["rule"]), e.iteration) for e in alert_events(folder / "run")]
    expected = [
        one
        for first in range(0, PERIOD * ALERTS, PERIOD)
        for one in (
            ("alert", "nonfinite", first),
            ("alert", "rule", first),
            ("alert_over", "rule", first + BAD + 2),
            ("alert_over", "nonfinite", first + BAD + 9),
        )
    ]
    return faults if told == expected else [*faults, f"told {told}"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_alerts_are_told_once_wherever_the_aggregator_dies(tmp_path: Path):
    runs = {name: partial(_faults, tmp_path / name, points) for name, points in POINTS.items()}
    assert side_by_side(runs) == {}
