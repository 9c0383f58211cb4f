"""BR-31 and BR-35: nothing is lost at the start, and the exit waits for nobody."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import pytest
from case_runs import ended, finish, run, scalars, start
from own_tags import without_bus
from real_runs import DRAIN_S, fastest_s, only_run, until

from unilab_metrics.subscribe.subscriber import Subscriber

LOG_AT_ONCE = """
import sys, time
import unilab_metrics as um

publisher = um.init(algorithm="ppo", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
for n in range(100):
    publisher.point("point", n / 3, step=n)
    publisher.log({"Loss/value": n / 3, "Loss/surrogate": -1.0}, iteration=n)
"""


def start_and_check(logs: Path) -> None:
    run(LOG_AT_ONCE + "assert publisher.close(90), publisher.errors", logs)
    run_dir = only_run(logs)
    assert without_bus(ended(run_dir).points_per_tag) == {
        "point": 100,
        "Loss/value": 100,
        "Loss/surrogate": 100,
    }


@pytest.mark.slow
def test_five_starts_in_a_row_lose_nothing_sent_right_after_init(tmp_path: Path) -> None:
    for n in range(5):
        start_and_check(tmp_path / str(n))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_fifty_starts_in_a_row_lose_nothing_sent_right_after_init(tmp_path: Path) -> None:
    for n in range(50):
        start_and_check(tmp_path / str(n))


VIEWED = """
import sys
import unilab_metrics as um

publisher = um.init(algorithm="ppo", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
for iteration in range(60):
    once = {f"once/{iteration}": float(iteration)}
    publisher.log({"Loss/value": float(iteration), **once}, iteration=iteration)
sys.stdin.readline()
publisher.log({"Loss/value": 60.0}, iteration=60)
assert publisher.close(90), publisher.errors
"""


def test_a_viewer_that_joins_at_iteration_60_sees_every_tag_within_a_second(
    tmp_path: Path,
) -> None:
    training = start(VIEWED, tmp_path)
    until(lambda: list(tmp_path.glob("*/*/*/*tfevents*")), 30.0)
    run_dir = only_run(tmp_path)
    until(lambda: len(scalars(run_dir).get("Loss/value", [])) == 60)
    assert fastest_s(lambda: joining_s(run_dir), 1.0) < 1.0
    finish(training, say="\n")
    ended(run_dir)


def joining_s(run_dir: Path) -> float:
    """How long a new viewer takes to have every tag of :data:`VIEWED`."""
    began_s = time.monotonic()
    with Subscriber.attach(run_dir) as viewer:
        tags = {"Loss/value", *(f"once/{n}" for n in range(60))}
        while (snapshot := viewer.snapshot()) is None or not tags <= set(snapshot.tags):
            viewer.poll(50)
            assert time.monotonic() - began_s < DRAIN_S
        took_s = time.monotonic() - began_s
        assert without_bus(dict.fromkeys(snapshot.tags)).keys() == tags
    return took_s


UNSENT = """
began_s = time.monotonic()
delivered = publisher.close(0.5)
print(delivered, publisher.unsent, time.monotonic() - began_s, flush=True)
"""


@pytest.mark.parametrize("closes", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_exit_takes_less_than_a_second_when_no_aggregator_ever_comes(
    closes: bool, tmp_path: Path
) -> None:
    places = (tmp_path / f"logs-{n}" for n in count())
    assert fastest_s(lambda: exit_s(next(places), closes=closes), 1.0) < 1.0


def exit_s(logs: Path, *, closes: bool) -> float:
    """How long the end of a training without an aggregator takes."""
    report = UNSENT if closes else "print(publisher.unsent, time.monotonic_ns(), flush=True)"
    code = LOG_AT_ONCE.replace("range(100)", "range(1000)") + report
    training = start(code, logs, UNILAB_METRICS_PYTHON=str(logs / "no-python"))
    assert training.stdout is not None
    words = training.stdout.readline().split()
    line_ns = time.monotonic_ns()
    _, errors = training.communicate(timeout=60)
    took_s = (time.monotonic_ns() - line_ns) / 1e9
    assert training.returncode == 0
    if closes:
        delivered, unsent, close_s = words
        assert delivered == "False"
        took_s = max(took_s, float(close_s))
    else:
        unsent = words[0]
    assert int(unsent) >= 2000
    # What was not sent waits in the spool, and an aggregator by hand finishes the run.
    run_dir = only_run(logs)
    assert re.search(r"\d{4} unsent: these frames wait in /.* could not be started", errors)
    assert f"`unilab-metrics recover {run_dir}`" in errors
    command = [sys.executable, "-m", "unilab_metrics", "aggregate", str(run_dir)]
    subprocess.run(command, check=True, timeout=60)
    assert ended(run_dir).points_per_tag["Loss/value"] == 1000
    return took_s
