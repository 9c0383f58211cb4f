"""Ranks whose rank 0 has died before it opened the run: what they are told is true."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from case_runs import processes
from real_runs import until, values_of
from spooled import spooled_publisher
from steered_ranks import iterations

from unilab_metrics.run.summary import read_summary
from unilab_metrics.run.verifying.verify import verify_run
from unilab_metrics.transport.rendezvous import CONNECTION_FILE, bus_directory

_RANK = """
import sys, unilab_metrics as um
rank, run_dir, first = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
publisher = um.init(
    algorithm="sac", task="t", sim_backend="x", run_dir=run_dir, rank=rank, world_size=2
)
for iteration in range(first, first + 5):
    publisher.log({"a": 1.0 + rank}, iteration=iteration)
if rank == 0:
    sys.stdin.read()
publisher.close(0.2 if sys.argv[4:] else 30)
"""


def rank(number: int, run_dir: Path, first: int, env: dict[str, str], *alone: str) -> str:
    """Its error output."""
    command = [sys.executable, "-c", _RANK, str(number), str(run_dir), str(first), *alone]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=True)
    return done.stderr


@pytest.fixture
def env(short_path: Path) -> dict[str, str]:
    places = {"UNILAB_METRICS_SPOOL": short_path / "spools", "UNILAB_METRICS_RUNTIME": short_path}
    for place in places.values():
        place.mkdir(mode=0o700, exist_ok=True)
    return {**os.environ, **{name: str(place) for name, place in places.items()}}


def test_a_run_that_is_not_there_is_not_to_be_recovered(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    publisher = spooled_publisher(tmp_path, rank=1, find_run=lambda: run_dir)
    publisher.log({"a": 1.0}, iteration=1)
    with pytest.warns(RuntimeWarning, match="3 unsent: .*the next attempt") as said:
        publisher.close(0)
    assert "recover" not in str(said[0].message)
    publisher = spooled_publisher(tmp_path, rank=1, find_run=lambda: run_dir)
    (run_dir / "bus").mkdir(parents=True)
    with pytest.warns(RuntimeWarning, match="1 unsent: .*`unilab-metrics recover"):
        publisher.close(0)


@pytest.mark.slow
def test_the_commands_make_a_run_of_what_waits(tmp_path: Path, env: dict[str, str]) -> None:
    run_dir = tmp_path / "a run"
    said = rank(1, run_dir, 1, env, "alone")
    assert "no run is to be seen in" in said
    assert "next attempt" in said
    mkdir, aggregate = re.findall(r"`([^`]+)`", said)
    subprocess.run(shlex.split(mkdir), check=True)
    command = [
        sys.executable,
        "-m",
        *shlex.split(aggregate.replace("unilab-metrics", "unilab_metrics", 1)),
    ]
    subprocess.run(command, env=env, check=True, capture_output=True, timeout=60)
    assert verify_run(run_dir).history.updates == 5


@pytest.mark.slow
def test_the_next_start_takes_them_in_and_waits_for_its_own_rank(
    tmp_path: Path, env: dict[str, str]
) -> None:
    run_dir = tmp_path / "run"
    rank(1, run_dir, 1, env, "alone")

    def start(number: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", _RANK, str(number), run_dir, "6"]
        return subprocess.Popen(command, env=env, stdin=subprocess.PIPE)

    with start(0) as zero:
        # What the dead rank 1 has left is taken in by now: it is not this start's rank 1.
        until(
            lambda: (bus_directory(run_dir) / CONNECTION_FILE).exists() or zero.poll() is not None
        )
        with start(1) as one:
            until(lambda: [update.iteration for update in iterations(run_dir)][-1:] == [10])
            # After the end of all that came, those that did not have only five seconds.
            zero.communicate(timeout=60)
            assert [zero.wait(), one.wait(60)] == [0, 0]
    # Whether the ranks could wait so long or not.
    until(lambda: read_summary(run_dir) and processes() == [])
    assert verify_run(run_dir).history.updates == 10
    assert values_of("a", run_dir) == {2.0, 1.5}
