"""``doctor`` looks at a run whose processes have other pids than it sees: a container of its node."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from case_runs import finish, processes
from real_runs import only_run, until

from unilab_metrics.run.doctor.examination import examine_run
from unilab_metrics.run.doctor.finding import ERROR, WARNING

TRAINING = """
import sys
import unilab_metrics as um

publisher = um.init(algorithm="ppo", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
publisher.log({"Loss/value": 1.0}, iteration=0)
sys.stdin.readline()
assert publisher.close(), publisher.errors
"""
ISOLATED = ("unshare", "--pid", "--fork", "--mount-proc")


def test_a_rank_with_pids_of_its_own_is_not_taken_for_a_dead_one(tmp_path: Path) -> None:
    if subprocess.run([*ISOLATED, "true"], capture_output=True, check=False).returncode:
        pytest.skip("unshare --pid is not permitted here")
    training = subprocess.Popen(
        [*ISOLATED, sys.executable, "-c", TRAINING, os.fspath(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: processes("write"), 30.0)
    run_dir = only_run(tmp_path)
    until(lambda: not _troubles(run_dir))
    living = [f.text for f in examine_run(run_dir) if f.text.startswith("learner of rank 0")]
    assert [text.endswith("lives") for text in living] == [True]
    finish(training, say="\n")


def _troubles(run_dir: Path) -> list[str]:
    return [f.text for f in examine_run(run_dir) if f.level in {ERROR, WARNING}]
