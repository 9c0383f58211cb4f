"""A run directory that cannot be made, one that is removed under a training, a backend that
stands still at the end."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest
from case_runs import aggregator_pid, await_end, ended, leftovers
from real_runs import fastest_s, only_run, until

from unilab_metrics.publish.runless import NO_RUN_TIMEOUT_S
from unilab_metrics.storage.lease import owner_pid
from unilab_metrics.storage.places import spool_root
from unilab_metrics.transport.rendezvous import bus_directory

TRAINING = """
import sys, time
import unilab_metrics as um

publisher = um.init(algorithm="ppo", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
for k in range(20):
    publisher.log({"Loss/value": float(k)}, iteration=k)
print("logged", flush=True)
while sys.stdin.readline() == "unsent\\n":
    print(publisher.unsent, flush=True)
for k in range(20, 40):
    publisher.log({"Loss/value": float(k)}, iteration=k)
began_s = time.monotonic()
delivered = publisher.close(float(sys.argv[2]))
print(time.monotonic() - began_s)
print(delivered, publisher.dropped, flush=True)
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


def unsent(process: subprocess.Popen[str]) -> int:
    """How many records of one that has logged its first ones are with no aggregator yet."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("unsent\n")
    process.stdin.flush()
    return int(process.stdout.readline())


def close(process: subprocess.Popen[str]) -> tuple[float, str, str]:
    """How long its ``close()`` has taken, what came of it, and its error output."""
    output, errors = process.communicate("\n", timeout=60)
    assert process.returncode == 0, errors
    took_s, said = output.splitlines()[-2:]
    return float(took_s), said, errors


def remove(run_dir: Path) -> None:
    """Also what its helpers put there meanwhile."""

    def is_gone() -> bool:
        with contextlib.suppress(OSError):
            shutil.rmtree(run_dir)
        return not run_dir.exists()

    until(is_gone)


@pytest.mark.slow
def test_what_no_run_directory_could_be_made_for_becomes_a_run_elsewhere(tmp_path: Path) -> None:
    """As the warning says."""
    (tmp_path / "file").touch()
    process = training(str(tmp_path / "file" / "logs"), "30")
    _, said, errors = close(process)
    assert said == "False {}"
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
def test_a_run_that_nobody_can_open_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    def closing_s() -> float:
        took_s, said, _ = close(training(str(tmp_path / "file" / "logs"), "30"))
        assert said == "False {}"
        return took_s

    # Somebody else's would be, for that long.
    assert fastest_s(closing_s, NO_RUN_TIMEOUT_S) < NO_RUN_TIMEOUT_S


@pytest.mark.slow
def test_a_run_that_is_removed_under_its_training_leaves_nothing(tmp_path: Path) -> None:
    process = training(str(tmp_path / "logs"), "30")
    assert process.stdout is not None
    assert process.stdout.readline() == "logged\n"
    # The publisher has to have seen it once.
    until(lambda: unsent(process) == 0)
    run_dir = only_run(tmp_path / "logs")
    aggregator = aggregator_pid(run_dir)
    remove(run_dir)
    # Its aggregator sees that there is no run any more.
    await_end(aggregator)
    _, said, errors = close(process)
    # The iterations, the end, and what has happened to the aggregator.
    count = int(said.removeprefix("False {'no_run': ").removesuffix("}"))
    assert 21 <= count <= 25
    assert f"{run_dir} was removed, and with it the last {count} records of this process" in errors
    # A writer that was just starting sees it later.
    until(lambda: leftovers() == [])


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_backend_that_stands_still_is_named_by_who_closes_when_its_time_is_over(
    tmp_path: Path,
) -> None:
    places = (tmp_path / str(n) for n in count())
    # 3 s, and a little in which whoever sends ends.
    assert 3.0 <= fastest_s(lambda: with_a_backend_that_stands_still_s(next(places)), 4.0) < 4.0


def with_a_backend_that_stands_still_s(logs: Path) -> float:
    """How long ``close(3)`` takes."""
    process = training(str(logs), "3")
    assert process.stdout is not None
    assert process.stdout.readline() == "logged\n"
    until(lambda: list(logs.glob("*/*/*/events.*")))
    run_dir = only_run(logs)
    lease = bus_directory(run_dir) / "writer-tensorboard.lease"
    until(lambda: owner_pid(lease))
    writer = owner_pid(lease)
    assert writer is not None
    os.kill(writer, signal.SIGSTOP)
    try:
        took_s, said, errors = close(process)
    finally:
        os.kill(writer, signal.SIGCONT)
    assert said == "False {}"
    assert "not complete in every backend yet (tensorboard is at update " in errors
    assert f"everything of this process is in the journal of {run_dir}" in errors
    assert ended(run_dir).points_per_tag["Loss/value"] == 40
    return took_s
