"""Reads the summary of an ended run."""

from __future__ import annotations

from pathlib import Path

from unilab_metrics.config import RUN_SUMMARY_FILE
from unilab_sidecar.summary import Summary, summary_in

_MAX_BYTES = 4 * 1024 * 1024


def read_summary(run_dir: Path, attempt: int) -> Summary | None:
    """What the run's file says of ``attempt``, ``None`` if it says nothing of it."""
    try:
        with (run_dir / RUN_SUMMARY_FILE).open("rb") as file:
            data = file.read(_MAX_BYTES)
    except OSError:
        return None
    return summary_in(data, attempt)
