"""A second process that claims rank 0 never takes the run over; a restart does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from case_runs import scalars
from real_runs import until
from steered_ranks import SteeredRank, entries, iterations, told

from unilab_metrics.run.completing.recovering import recover_run
from unilab_metrics.run.summary import read_summary
from unilab_metrics.storage.lease import is_free
from unilab_metrics.transport.rendezvous import aggregator_lease
from unilab_schema.updates import AttemptOpened, RunEnded

TAG = "Loss/value"


def attempts(run_dir: Path) -> list[int]:
    return [entry.attempt for entry in entries(run_dir) if isinstance(entry, AttemptOpened)]


def check(run_dir: Path, iterations_done: int, *, late_values: int, status: str) -> None:
    """The run is the first process's, and nothing of it was purged."""
    summary = read_summary(run_dir)
    assert summary is not None
    assert (summary["status"], summary["task"]) == (status, "Toy")
    assert summary["bus"]["attempt"] == 1
    assert summary["bus"]["late_values"] == late_values
    assert [(one.iteration, one.attempt) for one in iterations(run_dir)] == [
        (k, 1) for k in range(iterations_done)
    ]
    ends = [entry.attempt for entry in entries(run_dir) if isinstance(entry, RunEnded)]
    assert set(ends) == {1}
    assert set(attempts(run_dir)) == {1}
    assert [step for step, _ in scalars(run_dir)[TAG]] == list(range(iterations_done))


def over(run_dir: Path) -> None:
    until(lambda: is_free(aggregator_lease(run_dir)) and read_summary(run_dir), 60.0)


def refused(double: SteeredRank) -> bool:
    return "was at work in this place" in double.do("eval publisher.errors")


@pytest.mark.slow
def test_a_second_rank_0_that_outlives_the_first_is_late(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with SteeredRank(run_dir, 0, 1) as zero:
        zero.ready().log(0, 9)
        until(lambda: len(iterations(run_dir)) == 10, 30.0)
        with SteeredRank(run_dir, 0, 1) as double:
            double.ready().log(0, 4, value=1000.0)
            until(lambda: refused(double), 30.0)
            zero.log(10, 19)
            assert zero.end().startswith("True")
            over(run_dir)
            double.log(5, 9, value=1000.0)
            answer = double.end("close 5")
            assert answer.startswith("False ")
            assert "these frames wait in " in answer
            assert answer.endswith("and will count as late")
            assert "recover" not in answer
    (warning,) = told(run_dir, "warning")
    assert warning.startswith(f"pid {double.pid} on ")
    check(run_dir, 20, late_values=0, status="completed")
    found = recover_run(run_dir, wait_s=10.0)
    assert [(taken.identity.pid, taken.lost) for taken in found.taken] == [(double.pid, 0)]
    assert found.late_values == 10
    check(run_dir, 20, late_values=10, status="completed")


@pytest.mark.slow
def test_a_second_rank_0_is_late_also_when_the_first_is_killed_and_a_third_goes_on(
    tmp_path: Path,
) -> None:
    run_dir = tmp_path / "run"
    with SteeredRank(run_dir, 0, 1) as zero:
        zero.ready().log(0, 9)
        until(lambda: len(iterations(run_dir)) == 10, 30.0)
        with SteeredRank(run_dir, 0, 1) as double:
            double.ready().log(0, 4, value=1000.0)
            until(lambda: refused(double), 30.0)
            zero.kill()
            over(run_dir)
            check(run_dir, 10, late_values=0, status="failed")
            with SteeredRank(run_dir, 0, 1) as again:
                again.ready().log(5, 12, value=7.0)
                until(lambda: len(iterations(run_dir, 2)) == 8, 30.0)
                double.log(5, 20, value=1000.0)
                assert again.end().startswith("True")
            double.kill()
    found = recover_run(run_dir, wait_s=10.0)
    assert found.late_values == 21
    assert [one.iteration for one in iterations(run_dir, 2)] == list(range(5, 13))
    assert sorted(set(attempts(run_dir))) == [1, 2]
    values = dict(scalars(run_dir)[TAG])
    assert [values[k] for k in range(13)] == [0.0] * 5 + [7.0] * 8


@pytest.mark.slow
def test_a_restart_right_after_a_kill_is_the_next_attempt(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with SteeredRank(run_dir, 0, 1) as zero:
        zero.ready().log(0, 9)
        until(lambda: len(iterations(run_dir)) == 10, 30.0)
        zero.kill()
        with SteeredRank(run_dir, 0, 1) as again:
            again.ready().log(5, 8, value=7.0)
            until(lambda: len(iterations(run_dir, 2)) == 4, 30.0)
            assert again.end().startswith("True")
    summary = read_summary(run_dir)
    assert summary is not None
    assert (summary["status"], summary["bus"]["attempt"]) == ("completed", 2)
    assert summary["bus"]["late_values"] == 0


CHILDREN = """
import os, subprocess, sys
import unilab_metrics as um
um_run = sys.argv[1]
publisher = um.init(algorithm="ppo", task="Toy", run_dir=um_run)
for iteration in range(10):
    publisher.log({"Loss/value": 0.0}, iteration=iteration)
while publisher.unsent:
    pass
pid = os.fork()
if pid == 0:
    um.init(algorithm="eval", task="other", run_dir=um_run).log({"Loss/value": 9.0}, iteration=1)
    os._exit(0)
os.waitpid(pid, 0)
child = "import unilab_metrics as um; p = um.init(algorithm='eval', task='other'); " \\
    "p.log({'Loss/value': 9.0}, iteration=2); p.close(2)"
subprocess.run([sys.executable, "-W", "ignore", "-c", child],
    env=os.environ | {"UNILAB_METRICS_RUN": um_run}, check=True)
for iteration in range(10, 12):
    publisher.log({"Loss/value": 0.0}, iteration=iteration)
assert publisher.close(30)
"""


@pytest.mark.slow
def test_children_that_open_the_run_once_more_change_nothing_in_it(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    subprocess.run([sys.executable, "-c", CHILDREN, str(run_dir)], check=True, timeout=120)
    check(run_dir, 12, late_values=2, status="completed")
    assert json.loads((run_dir / "run_config.json").read_text())["run"]["task"] == "Toy"
