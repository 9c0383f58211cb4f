"""Children of a training that outlive it with everything it had open."""

from __future__ import annotations

import os
import signal
import time
from itertools import count
from pathlib import Path

import psutil
import pytest
from case_runs import ended, leftovers, processes, scalars, start
from real_runs import fastest_s, only_run, summary_s, until

from unilab_metrics.run.summary import read_summary

SLOW = pytest.mark.slow
SUMMARY_S, GONE_S = 10.0, 15.0
"""What a run promises, from the end of its training on: a summary; no process, after a drain."""
TRAINING = """
import os, signal, sys, time, warnings
warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)
import unilab_metrics as um

publisher = um.init(algorithm="ppo", task="Toy", log_root=sys.argv[1])
publisher.log({"Loss/value": 0.0}, iteration=0)
workers = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(0.1)  # like a loader's worker that waits for its parent's next request
    workers.append(pid)
for iteration in range(1, 10):
    publisher.log({"Loss/value": 0.0}, iteration=iteration)
print(*workers, flush=True)
if sys.argv[2] == "close":
    publisher.close()
    os._exit(0)
time.sleep(60)
"""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", ["kill", pytest.param("close", marks=SLOW)])
def test_workers_that_hold_every_descriptor_hold_no_run(how: str, tmp_path: Path) -> None:
    """A lock that came with the descriptor would keep the training alive in our eyes."""
    places = (tmp_path / str(n) for n in count())
    assert fastest_s(lambda: end_s(how, next(places)), SUMMARY_S) < SUMMARY_S


def end_s(how: str, logs: Path) -> float:
    """How long after the training's end its run has a summary."""
    training = start(TRAINING, logs, how)
    assert training.stdout is not None
    workers = [int(word) for word in training.stdout.readline().split()]
    try:
        run_dir = only_run(logs)
        if how == "kill":
            # So that no start is among what is waited for.
            until(lambda: any(run_dir.glob("events.*")))
            training.kill()
        assert training.wait(60) == (-signal.SIGKILL if how == "kill" else 0)
        took_s = summary_s(run_dir, time.time())
        until(lambda: not processes("aggregate") and not processes("write"))
        assert all(psutil.pid_exists(pid) for pid in workers)
    finally:
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        training.communicate()
    until(lambda: leftovers() == [])
    ended(run_dir)
    assert scalars(run_dir) == {"Loss/value": [(k, 0.0) for k in range(10)]}
    summary = read_summary(run_dir)
    assert summary is not None
    assert summary["status"] == ("failed" if how == "kill" else "completed")
    return took_s


ENDS = """
import os, signal, sys, threading
import unilab_metrics as um
publisher = um.init(algorithm="ppo", task="Toy", log_root=sys.argv[1])
for iteration in range(10):
    publisher.log({"Loss/value": 0.0}, iteration=iteration)
print(flush=True)
sys.stdin.readline()
exec(sys.argv[2])
"""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("sys.exit(9)", 9),
        pytest.param("os._exit(11)", 11, marks=SLOW),
        pytest.param("os.abort()", -signal.SIGABRT, marks=SLOW),
        pytest.param("raise SystemExit('no')", 1, marks=SLOW),
        ("threading.Thread(target=lambda: os._exit(13)).start(); threading.Event().wait()", 13),
    ],
)
def test_exit_codes_are_kept_and_nothing_hangs(how: str, code: int, tmp_path: Path) -> None:
    places = (tmp_path / str(n) for n in count())
    assert fastest_s(lambda: exit_s(how, code, next(places)), GONE_S) < GONE_S


def exit_s(how: str, code: int, logs: Path) -> float:
    """How long the end takes, until no process of the run is left."""
    training = start(ENDS, logs, how)
    assert training.stdout is not None
    training.stdout.readline()
    run_dir = only_run(logs)
    until(lambda: any(run_dir.glob("events.*")))
    began_s = time.monotonic()
    training.communicate("\n", timeout=60)
    assert training.returncode == code
    until(lambda: leftovers() == [])
    took_s = time.monotonic() - began_s
    ended(run_dir)
    assert scalars(run_dir) == {"Loss/value": [(k, 0.0) for k in range(10)]}
    return took_s
