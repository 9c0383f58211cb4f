"""The demo trains also where its launcher has no standard streams."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from real_runs import only_run, whole

pytest.importorskip("torch")
pytestmark = pytest.mark.timeout(300)


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["<&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_stop_no_demo(closed: str, tmp_path: Path) -> None:
    demo = "-m unilab_metrics demo --ranks 1 --iterations 10"
    command = f'exec "$0" {demo} training.log_root="$1" {closed}'
    subprocess.run(
        ["sh", "-c", command, sys.executable, str(tmp_path)],
        check=True, timeout=200, capture_output=True,
    )  # fmt: skip
    verified = whole(only_run(tmp_path))
    assert (verified.history.ended, verified.history.updates) == ("completed", 10)
