"""Trainings in processes of their own, and what must be true when they are over."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from unilab_metrics.config import RUN_SUMMARY_FILE
from unilab_metrics.outcome import COMPLETED
from unilab_metrics.run.meeting.launch_file import sweep_launches
from unilab_metrics.run.summary import read_summary
from unilab_metrics.run.verifying.event_points import held_position, marked_points
from unilab_metrics.run.verifying.verify import Verified, verify_run
from unilab_metrics.storage.lease import is_free
from unilab_metrics.storage.places import held_bytes, runtime_directory, spool_root
from unilab_metrics.transport.rendezvous import aggregator_lease

DRAIN_S = 60.0
"""Patience of a test, and no promise: what is promised within a time has a bound of its own where it
is tested. A failure waits this long, a success on a busy machine may take more than ten seconds."""


def start(code: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )


def run(code: str, *arguments: str, timeout_s: float = 60, **environment: str) -> str:
    with start(code, *arguments, **environment) as process:
        try:
            output, errors = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert process.returncode == 0, errors
    assert errors == ""
    return output


def until(condition: Callable[[], Any], timeout_s: float = DRAIN_S) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, "did not happen in time"
        time.sleep(0.02)


def fastest_s(measure: Callable[[], float], promised_s: float, tries: int = 5) -> float:
    """What ``measure`` gives, the least of several times unless the first is below
    ``promised_s``: a busy machine makes anything slow now and then, and what is slow of itself is
    so each time."""
    least_s = measure()
    while least_s >= promised_s and (tries := tries - 1):
        least_s = min(least_s, measure())
    return least_s


def summary_s(run_dir: Path, since_s: float) -> float:
    """How long after a time of day the run's summary was written; waits for it. By the file's own
    time: what a test takes to notice it does not count."""
    until(lambda: read_summary(run_dir) is not None)
    return (run_dir / RUN_SUMMARY_FILE).stat().st_mtime - since_s


def only_run(logs: Path) -> Path:
    (found,) = logs.glob("*/*/*")
    return found


def helpers() -> list[int]:
    """Aggregators and writers that belong to this test."""
    found: list[int] = []
    for process in psutil.process_iter():
        try:
            if (
                process.environ().get("TMPDIR") == os.environ["TMPDIR"]
                and process.pid != os.getpid()
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def whole(run_dir: Path, *, is_restartable: bool = False) -> Verified:
    """The run when its aggregator is gone: whole, and nothing left behind.

    ``is_restartable``: the launcher may start it again, and its launch file stays for that.
    """
    until(lambda: read_summary(run_dir) is not None and is_free(aggregator_lease(run_dir)))
    verified = verify_run(run_dir)
    assert verified.history.ended is not None
    assert verified.lost_frames == 0
    assert verified.dropped_calls == {}
    until(lambda: held_bytes(spool_root()) == 0)
    until(lambda: not any(path.is_socket() for path in runtime_directory().iterdir()))
    if not is_restartable:
        if (read_summary(run_dir) or {}).get("status") != COMPLETED:
            # That of a rank 0 which needs more than a second to end is left to whoever comes by.
            sweep_launches()
        until(lambda: list(runtime_directory().iterdir()) == list(spool_root().iterdir()) == [])
    return verified


def values_of(tag: str, run_dir: Path) -> set[float]:
    """The different values that a tag has in the event files."""
    position = held_position(run_dir).position
    assert position is not None
    return {point.value for point in marked_points(run_dir, position) if point.tag == tag}
