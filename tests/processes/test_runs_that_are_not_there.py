"""A run directory that cannot be made, one that is removed under a training, a backend that
stands still at the end."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from case_runs import ended
from real_runs import only_run, until

from unilab_metrics.storage.lease import owner_pid
from unilab_metrics.storage.places import spool_root
from unilab_metrics.transport.rendezvous import bus_directory

TRAINING = """
import sys
import unilab_metrics as um

publisher = um.init(algorithm="ppo", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
for k in range(20):
    publisher.log({"Loss/value": float(k)}, iteration=k)
print("logged", flush=True)
sys.stdin.readline()
for k in range(20, 40):
    publisher.log({"Loss/value": float(k)}, iteration=k)
print(publisher.close(float(sys.argv[2])), publisher.dropped, flush=True)
"""


def training(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable,
            "-W",
            "ignore:.*frames wait in:RuntimeWarning",
            "-c",
            TRAINING,
            *arguments,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def close(process: subprocess.Popen[str]) -> tuple[str, str]:
    output, errors = process.communicate("\n", timeout=60)
    assert process.returncode == 0, errors
    return output.splitlines()[-1], errors


@pytest.mark.slow
def test_what_no_run_directory_could_be_made_for_becomes_a_run_elsewhere(tmp_path: Path) -> None:
    """As the warning says."""
    (tmp_path / "file").touch()
    process = training(str(tmp_path / "file" / "logs"), "30")
    began_s = time.monotonic()
    said, errors = close(process)
    assert said == "False {}"
    assert time.monotonic() - began_s < 9.0
    assert "(there is no run directory: [Errno 20] Not a directory: " in errors
    assert errors.count("RuntimeWarning: 42 unsent") == 1
    first, then = errors.split("`")[1], errors.split("`")[3]
    run_dir = tmp_path / "elsewhere"
    for command in first, then:
        words = shlex.split(command.replace("RUN_DIR", str(run_dir)))
        if words[0] == "unilab-metrics":
            words[:1] = [sys.executable, "-m", "unilab_metrics"]
        subprocess.run(words, check=True, timeout=60, capture_output=True)
    assert ended(run_dir).points_per_tag["Loss/value"] == 40
    assert list(spool_root().iterdir()) == []


@pytest.mark.slow
def test_a_run_that_is_removed_under_its_training_leaves_nothing(tmp_path: Path) -> None:
    process = training(str(tmp_path / "logs"), "30")
    until(lambda: list((tmp_path / "logs").glob("*/*/*/bus/bus.json")), 30.0)
    # The publisher has to have seen it once.
    time.sleep(1.5)
    run_dir = only_run(tmp_path / "logs")
    shutil.rmtree(run_dir)
    until(lambda: not run_dir.exists())
    # Its aggregator sees that there is no run any more.
    time.sleep(1.0)
    said, errors = close(process)
    # The iterations, the end, and what has happened to the aggregator.
    count = int(said.removeprefix("False {'no_run': ").removesuffix("}"))
    assert 21 <= count <= 25
    assert f"{run_dir} was removed, and with it the last {count} records of this process" in errors
    assert list(spool_root().iterdir()) == []


@pytest.mark.slow
def test_a_backend_that_stands_still_is_named_by_who_closes(tmp_path: Path) -> None:
    process = training(str(tmp_path), "3")
    assert process.stdout is not None
    assert process.stdout.readline() == "logged\n"
    until(lambda: list(tmp_path.glob("*/*/*/events.*")), 30.0)
    run_dir = only_run(tmp_path)
    lease = bus_directory(run_dir) / "writer-tensorboard.lease"
    until(lambda: owner_pid(lease))
    writer = owner_pid(lease)
    assert writer is not None
    os.kill(writer, signal.SIGSTOP)
    try:
        said, errors = close(process)
    finally:
        os.kill(writer, signal.SIGCONT)
    assert said == "False {}"
    assert "not complete in every backend yet (tensorboard is at update " in errors
    assert f"everything of this process is in the journal of {run_dir}" in errors
    assert ended(run_dir).points_per_tag["Loss/value"] == 40
