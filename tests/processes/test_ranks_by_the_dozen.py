"""64 ranks, each a source of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from case_runs import ended, scalars, updates
from real_runs import until
from steered_ranks import iterations, told

from unilab_metrics.run.summary import read_summary

TAG = "Loss/value"
RANKS, EACH = 64, 8
TRAINING = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
import unilab_metrics as um
first, each, world, run_dir = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
ranks = [
    um.init(algorithm="ppo", task="Toy", run_dir=run_dir, rank=rank, world_size=world)
    for rank in range(first, first + each)
]
for last in (20, 40):
    for iteration in range(last - 20, last):
        for publisher in ranks:
            publisher.log({"Loss/value": float(publisher.rank)}, iteration=iteration)
    os.write(1, b"logged\\n")
    sys.stdin.readline()
with ThreadPoolExecutor(each) as pool:
    print(all(pool.map(lambda publisher: publisher.close(60), ranks)))
"""


@pytest.mark.slow
def test_64_ranks_of_which_eight_die_in_the_run(tmp_path: Path) -> None:
    """They live in eight processes, which the machine can bear; to the bus they are 64."""
    run_dir = tmp_path / "run"
    # Rank 0, with which the run begins, comes last: all others have logged already, and none can be
    # later than iterations wait for it.
    processes = [_started(run_dir, first) for first in range(EACH, RANKS, EACH)]
    try:
        _logged(processes)
        processes.insert(0, _started(run_dir, 0))
        _logged(processes[:1])
        until(lambda: len(iterations(run_dir)) == 20, 60.0)
        dying = processes.pop()
        os.kill(dying.pid, signal.SIGKILL)
        dying.communicate()
        _go_on(processes)
        _logged(processes)
        until(lambda: len(iterations(run_dir)) == 40, 60.0)
        _go_on(processes)
        for process in processes:
            assert process.communicate(timeout=90)[0] == "True\n"
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    ended(run_dir)
    everybody, survivors = (RANKS - 1) / 2, (RANKS - EACH - 1) / 2
    found = [(u.iteration, u.ranks_reported, values[TAG]) for u, values in updates(run_dir)]
    assert found[:20] == [(k, 64, everybody) for k in range(20)]
    assert found[20:] == [(k, 56, survivors) for k in range(20, 40)]
    assert iterations(run_dir)[-1].missing_ranks == tuple(range(56, 64))
    assert len(told(run_dir, "lost")) == EACH
    assert len(scalars(run_dir)[TAG]) == 40
    summary = read_summary(run_dir)
    assert summary is not None
    assert summary["status"] == "completed"
    assert len(summary["bus"]["sources"]) == RANKS


def _started(run_dir: Path, first: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", TRAINING, str(first), str(EACH), str(RANKS), str(run_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _go_on(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()


def _logged(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "logged\n"
