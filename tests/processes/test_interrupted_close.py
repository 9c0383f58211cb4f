"""Ctrl+C while the end of a training waits: it says for what, ends at once, and loses nothing."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from real_runs import only_run, whole
from small_disks import complete

pytestmark = pytest.mark.slow

# One that has never come up is given up after ten seconds. Here it is waited for much longer, so
# that a wait that goes on is told from an end that takes long because the machine is busy.
TRAINING = """
import sys
import unilab_metrics as um
from unilab_metrics.publish import prospects
prospects.ABANDONED_AFTER_NS = 90_000_000_000
publisher = um.init(algorithm="ppo", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
for iteration in range(100):
    publisher.log({"Loss/value": float(iteration)}, iteration=iteration)
publisher.close(90)
"""


class Watched:
    """A training on a terminal, and what a person sees there."""

    def __init__(self, logs: Path, **environment: str) -> None:
        self._terminal, theirs = os.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", TRAINING, os.fspath(logs)],
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            env=os.environ | environment,
        )
        os.close(theirs)
        self.seen = ""

    def read_until(self, text: str, within_s: float) -> None:
        deadline_s = time.monotonic() + within_s
        while text not in self.seen:
            ready, _, _ = select.select([self._terminal], [], [], deadline_s - time.monotonic())
            assert ready, self.seen
            self._read()

    def read_to_the_end(self) -> None:
        while self._read():
            pass
        self.process.wait(30)
        os.close(self._terminal)

    def _read(self) -> bool:
        try:
            data = os.read(self._terminal, 65536)
        except OSError:  # nobody has it open any more
            return False
        self.seen += data.decode()
        return bool(data)


def test_ctrl_c_ends_the_wait_for_an_aggregator_that_does_not_come(tmp_path: Path) -> None:
    training = Watched(tmp_path, UNILAB_METRICS_PYTHON="/bin/false")
    training.read_until("unilab-metrics: waiting for the aggregator (", 30.0)
    training.read_until("Ctrl+C ends the wait and loses nothing", 30.0)
    began_s = time.monotonic()
    training.process.send_signal(signal.SIGINT)
    training.read_to_the_end()
    # Without it the wait goes on for 88 seconds more.
    assert time.monotonic() - began_s < 40.0
    assert training.process.returncode == -signal.SIGINT
    assert training.seen.count("waiting for") == 1
    assert "unsent: these frames wait in " in training.seen
    assert "KeyboardInterrupt" in training.seen
    run_dir = only_run(tmp_path)
    complete(run_dir)
    assert whole(run_dir, is_restartable=True).points_per_tag["Loss/value"] == 100
