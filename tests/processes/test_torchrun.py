"""A real torchrun agent that starts a failed training again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from real_runs import only_run, until, whole

from unilab_metrics.run.launch_file import sweep_launches
from unilab_metrics.run.summary import read_summary
from unilab_metrics.storage.places import runtime_directory, spool_root

TRAINING = """
import os, sys
import unilab_metrics as um
is_first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
publisher = um.init(algorithm="ppo", log_root=sys.argv[1])
for iteration in range(10) if is_first else range(10, 20):
    publisher.log({"Loss/value": 1.0}, iteration=iteration)
if is_first and publisher.rank == 0:
    exec(sys.argv[2])
publisher.close()
"""


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["raise ValueError('x')", "sys.exit(3)"])
def test_the_next_attempt_goes_on_in_the_same_run(ending: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    logs = tmp_path / "logs"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", "--max-restarts", "1", str(script), str(logs), ending]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    run_dir = only_run(logs)
    verified = whole(run_dir, is_restartable=True)
    assert verified.points_per_tag["Loss/value"] == 20
    summary = read_summary(run_dir)
    assert summary is not None
    assert (summary["status"], summary["bus"]["attempt"]) == ("completed", 2)
    assert "error" not in summary
    # The agent is gone, so the next one who comes by takes the rest away.
    sweep_launches()
    until(lambda: list(runtime_directory().iterdir()) == list(spool_root().iterdir()) == [])
