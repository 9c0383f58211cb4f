"""Reads the summary of an ended run."""

from __future__ import annotations

from pathlib import Path

from unilab_metrics.config import RUN_SUMMARY_FILE
from unilab_metrics.subscribe.small_files import read_small
from unilab_sidecar.feeding.summary import Summary, summary_in

_MAX_BYTES = 4 * 1024 * 1024


def read_summary(run_dir: Path, attempt: int) -> Summary | None:
    """What the run's file says of ``attempt``, ``None`` if it says nothing of it."""
    data = read_small(run_dir / RUN_SUMMARY_FILE, _MAX_BYTES)
    return None if data is None else summary_in(data, attempt)


def told_time(run_dir: Path, attempt: int) -> float | None:
    """Seconds of training that it says of ``attempt``, earlier attempts included."""
    found = read_summary(run_dir, attempt)
    return None if found is None else found.training_s
