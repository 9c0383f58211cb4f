"""Children of a training that outlive it with everything it had open."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil
import pytest
from case_runs import ended, leftovers, processes, scalars, start
from real_runs import only_run, until

from unilab_metrics.run.summary import read_summary

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


@pytest.mark.parametrize("how", ["kill", "close"])
def test_workers_that_hold_every_descriptor_hold_no_run(how: str, tmp_path: Path) -> None:
    """A lock that came with the descriptor would keep the training alive in our eyes."""
    training = start(TRAINING, tmp_path, how)
    assert training.stdout is not None
    workers = [int(word) for word in training.stdout.readline().split()]
    try:
        if how == "kill":
            until(lambda: processes("write"), 30.0)
            training.kill()
        assert training.wait(60) == (-signal.SIGKILL if how == "kill" else 0)
        run_dir = only_run(tmp_path)
        until(lambda: read_summary(run_dir) is not None, 15.0)
        until(lambda: not processes("aggregate") and not processes("write"), 15.0)
        assert all(psutil.pid_exists(pid) for pid in workers)
    finally:
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        training.communicate()
    until(lambda: leftovers() == [], 15.0)
    ended(run_dir)
    assert scalars(run_dir) == {"Loss/value": [(k, 0.0) for k in range(10)]}
    summary = read_summary(run_dir)
    assert summary is not None
    assert summary["status"] == ("failed" if how == "kill" else "completed")


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


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("sys.exit(9)", 9),
        ("os._exit(11)", 11),
        ("os.abort()", -signal.SIGABRT),
        ("raise SystemExit('no')", 1),
        ("threading.Thread(target=lambda: os._exit(13)).start(); threading.Event().wait()", 13),
    ],
)
def test_exit_codes_are_kept_and_nothing_hangs(how: str, code: int, tmp_path: Path) -> None:
    training = start(ENDS, tmp_path, how)
    assert training.stdout is not None
    training.stdout.readline()
    until(lambda: processes("write"), 30.0)
    began_s = time.monotonic()
    training.communicate("\n", timeout=60)
    assert training.returncode == code
    assert time.monotonic() - began_s < 15.0
    run_dir = only_run(tmp_path)
    ended(run_dir)
    assert scalars(run_dir) == {"Loss/value": [(k, 0.0) for k in range(10)]}
