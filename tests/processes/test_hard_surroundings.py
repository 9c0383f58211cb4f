"""Trainings that do unusual things to the process they share with us, and disks that turn."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from case_runs import aggregator_pid, ended, processes
from real_runs import only_run, start, until
from small_disks import log_of, training

from unilab_metrics.run.processes import last_log_line
from unilab_metrics.run.summary import read_summary
from unilab_metrics.storage.lease import owner_pid
from unilab_metrics.transport.rendezvous import bus_directory

WATCHDOG = """
import signal, sys, time
import unilab_metrics as um

class Overtime(Exception):
    pass

class Watchdog:
    raised = 0
    def __call__(self, number, frame):
        self.raised += 1
        raise Overtime

watchdog = Watchdog()
signal.signal(signal.SIGALRM, watchdog)
publisher = um.init(algorithm="ppo", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
values = {f"Loss/{n}": float(n) for n in range(20)}
caught, k = 0, 0
# Each comes at another place of log(), which is where chance puts it; ten would do for the paths
# that lose one every time, and more only take longer.
for _ in range(50):
    until_s = time.monotonic() + 5.0
    try:
        # Within, as on a busy machine it comes before the next line.
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        while time.monotonic() < until_s:
            publisher.log(values, iteration=k)
            k += 1
    except Overtime:
        caught += 1
print(caught, watchdog.raised, flush=True)
publisher.close()
"""


@pytest.mark.slow
def test_what_a_signal_handler_raises_inside_log_reaches_the_training(tmp_path: Path) -> None:
    with start(WATCHDOG, str(tmp_path)) as process:
        output, errors = process.communicate(timeout=90)
    assert process.returncode == 0, errors
    caught, raised = map(int, output.split())
    assert caught == raised == 50
    ended(only_run(tmp_path))


DAEMON = """
import os, sys
import unilab_metrics as um

publisher = um.init(algorithm="ppo", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
for k in range(10):
    publisher.log({"Loss/value": float(k)}, iteration=k)
os.closerange(3, 256)
publisher.log({"Loss/value": 10.0}, iteration=10)
print(publisher.close(2.0), flush=True)
"""


def test_a_training_that_closes_every_descriptor_goes_on_and_ends_in_order(tmp_path: Path) -> None:
    with start(DAEMON, str(tmp_path)) as process:
        output, _ = process.communicate(timeout=60)
    assert (process.returncode, output.strip()) in {(0, "False"), (0, "True")}
    # An aggregator that was on its way up finds what the training has left, and ends.
    until(lambda: processes() == [], 60.0)


@pytest.mark.slow
def test_a_run_directory_that_turns_read_only_and_back_costs_nothing(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with training(run_dir) as trainer:
        trainer.log(50)
        aggregator = aggregator_pid(run_dir)
        lease = bus_directory(run_dir) / "writer-tensorboard.lease"
        until(lambda: owner_pid(lease))
        writer = owner_pid(lease) or 0
        with read_only(run_dir):
            os.kill(writer, signal.SIGKILL)
            # Longer than it takes to look after writers, leases and spools.
            trainer.log(150, 0.02)
            assert psutil.pid_exists(aggregator)
        facts, _ = trainer.close()
        assert facts["delivered"] is True
    assert ended(run_dir).points_per_tag["Loss/value_0"] == 200
    assert "Traceback" not in log_of(run_dir)


@contextmanager
def read_only(folder: Path) -> Generator[None, None, None]:
    """For whoever opens a file from now on."""
    for arguments in (["--bind", str(folder), str(folder)], ["-o", "remount,ro,bind", str(folder)]):
        done = subprocess.run(["mount", *arguments], check=False, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"cannot mount here: {done.stderr.strip()}")
    try:
        yield
    finally:
        # A writer that is started meanwhile reads there until it sees that it cannot write.
        until(lambda: subprocess.run(["umount", str(folder)], check=False).returncode == 0)


@pytest.mark.parametrize("name", ["aggregator.log", "run_summary.json"])
def test_a_pipe_where_a_file_should_be_holds_up_no_command(name: str, tmp_path: Path) -> None:
    bus_directory(tmp_path).mkdir(mode=0o700)
    folder = bus_directory(tmp_path) if name.endswith(".log") else tmp_path
    os.mkfifo(folder / name)
    assert last_log_line(tmp_path, "aggregator.log") == ""
    assert read_summary(tmp_path) is None
