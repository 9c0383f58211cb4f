"""The examples run as they stand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slow
def test_the_learner_and_its_collector_leave_a_whole_run(tmp_path: Path) -> None:
    program = EXAMPLES / "learner_and_collector.py"
    done = subprocess.run(
        [sys.executable, program, "--iterations", "60"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (run_dir,) = (tmp_path / "logs" / "sac" / "example").iterdir()
    summary = json.loads((run_dir / "run_summary.json").read_text("utf-8"))
    assert (summary["status"], summary["completed_iterations"]) == ("completed", 60)
    assert sorted(one["role"] for one in summary["bus"]["sources"]) == ["collector", "learner"]
    assert summary["bus"]["lost_frames"] == 0
