"""What the launcher says at the end, however impatient its user is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from case_runs import ended, processes, scalars
from pressed_again import interrupt_again
from real_runs import until
from steered_ranks import iterations

LAUNCHER = """
import subprocess, sys
from pathlib import Path
from unilab_metrics.run.launching.launcher import run_owning_terminal

def start(console):
    return [
        subprocess.Popen([sys.executable, "-c", sys.argv[2], sys.argv[1]], stdout=console,
                         stdin=subprocess.DEVNULL, stderr=console, start_new_session=True)
    ]

sys.exit(run_owning_terminal(start, Path(sys.argv[1]), headless=True))
"""
STUBBORN = """
import signal, sys, time
import unilab_metrics as um
signal.signal(signal.SIGTERM, signal.SIG_IGN)
publisher = um.init(algorithm="ppo", task="Toy", run_dir=sys.argv[1])
for iteration in range(10):
    publisher.log({"Loss/value": 0.0}, iteration=iteration)
time.sleep(600)  # until it is killed
"""


def launch(run_dir: Path) -> subprocess.Popen[str]:
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, str(run_dir), STUBBORN],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until(lambda: len(iterations(run_dir)) == 10 and scalars(run_dir), 60.0)
    return launcher


def interrupt(launcher: subprocess.Popen[str], times: int) -> None:
    """Each once the one before was heard: of several that come at once a process hears one."""
    assert launcher.stdout is not None
    (rank,) = (
        child for child in psutil.Process(launcher.pid).children() if STUBBORN in child.cmdline()
    )
    launcher.send_signal(signal.SIGINT)
    assert any("stopping the training" in line for line in iter(launcher.stdout.readline, ""))
    interrupt_again(launcher)
    for _ in range(times - 2):
        until(lambda: not rank.is_running())
        time.sleep(0.5)
        launcher.send_signal(signal.SIGINT)


@pytest.mark.slow
def test_ctrl_c_twice_kills_the_training_and_reports_the_whole_run(run_dir: Path) -> None:
    with launch(run_dir) as launcher:
        interrupt(launcher, 2)
        output, errors = launcher.communicate(timeout=60)
    assert launcher.returncode == 130, errors
    assert "Status         stopped by Ctrl+C" in output
    assert "1 to 10 points each" in output
    ended(run_dir)


@pytest.mark.slow
def test_ctrl_c_three_times_says_that_the_aggregator_is_still_at_work(run_dir: Path) -> None:
    with launch(run_dir) as launcher:
        (aggregator,) = processes("aggregate")
        os.kill(aggregator.pid, signal.SIGSTOP)
        try:
            interrupt(launcher, 3)
            output, errors = launcher.communicate(timeout=60)
        finally:
            os.kill(aggregator.pid, signal.SIGCONT)
    assert launcher.returncode == 130, errors
    assert f"Summary        not yet: the aggregator (pid {aggregator.pid}) is at work" in output
    ended(run_dir)
    assert scalars(run_dir) == {"Loss/value": [(k, 0.0) for k in range(10)]}
