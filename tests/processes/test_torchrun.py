"""A real torchrun agent that starts a failed training again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from real_runs import only_run, until, whole

from unilab_metrics.run.meeting.launch_file import sweep_launches
from unilab_metrics.run.summary import read_summary
from unilab_metrics.run.verifying.verify import Verified
from unilab_metrics.storage.places import runtime_directory, spool_root

TRAINING = """
import os, sys, time
from pathlib import Path
import unilab_metrics as um
attempt, rank = os.environ["TORCHELASTIC_RESTART_COUNT"], os.environ["RANK"]
marks = Path(sys.argv[1]).parent

def meet():
    # As ranks do that reduce gradients: none is done before the other has come.
    (marks / f"{attempt}-{rank}").touch()
    while not (marks / f"{attempt}-{1 - int(rank)}").exists():
        time.sleep(0.01)

if attempt == "0" and sys.argv[3] == "late":
    failed = marks / "failed"
    def meet():
        if rank == "1":
            os._exit(0)
        publisher.close(timeout_s=0.0, status="failed")
        failed.touch()
    if rank == "1":
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while not failed.exists():
            time.sleep(0.01)
publisher = um.init(algorithm="ppo", log_root=sys.argv[1])
for iteration in range(10) if attempt == "0" else range(10, 20):
    publisher.log({"Loss/value": 1.0}, iteration=iteration)
meet()
if attempt == "0" and rank == "0":
    exec(sys.argv[2])
publisher.close()
"""


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["raise ValueError('x')", "sys.exit(3)"])
def test_the_next_attempt_goes_on_in_the_same_run(ending: str, tmp_path: Path) -> None:
    verified = _train(ending, "together", tmp_path)
    assert verified.journal is not None
    assert len(verified.journal.sources) == 4


@pytest.mark.slow
def test_a_rank_that_comes_when_rank_0_has_failed_enters_no_other_attempt(tmp_path: Path) -> None:
    _train("raise ValueError('x')", "late", tmp_path)


def _train(ending: str, starts: str, tmp_path: Path) -> Verified:
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    logs = tmp_path / "logs"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", "--max-restarts", "1", str(script), str(logs)]
    command += [ending, starts]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
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
    return verified
