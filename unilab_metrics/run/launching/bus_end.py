"""The end of a run as its launcher sees it: the aggregator has taken all that there is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from unilab_metrics.config import RUN_SUMMARY_FILE
from unilab_metrics.run.bus_settings import SETTINGS_FILE, has_settings
from unilab_metrics.run.opening import complete_run
from unilab_metrics.storage.lease import is_free
from unilab_metrics.transport.rendezvous import aggregator_lease, bus_directory

_DRAIN_S = 15.0


def summary_stamp(run_dir: Path) -> int:
    """Changes with each summary of the run that is written; 0 without one."""
    return _written_unix_ns(run_dir / RUN_SUMMARY_FILE)


def earlier_summary_stamp(run_dir: Path) -> int:
    """The stamp of the summary that an earlier attempt has left; 0 without one. Asked soon after
    rank 0 has opened the newest attempt, before anybody may have set the clock."""
    stamp = summary_stamp(run_dir)
    # Each attempt begins with settings of its own, and ends with its summary.
    return stamp if stamp < _written_unix_ns(bus_directory(run_dir) / SETTINGS_FILE) else 0


def has_new_summary(run_dir: Path, earlier_summary: int) -> bool:
    """Whether one was written since that with the stamp ``earlier_summary``."""
    return summary_stamp(run_dir) not in {0, earlier_summary}


def _written_unix_ns(file: Path) -> int:
    try:
        return os.stat(file).st_mtime_ns
    except OSError:
        return 0


def await_bus(
    run_dir: Path,
    earlier_summary: int,
    *,
    tick: Callable[[], None],
    is_impatient: Callable[[], bool],
) -> None:
    """After the training's processes are gone: until the aggregator has ended, which it does when
    every frame is in the backends, or at its own deadline.

    One that died with the rank that would have started it again is started here, once.
    ``earlier_summary``: as of :func:`summary_stamp` before the training, or of
    :func:`earlier_summary_stamp`. ``tick`` takes a moment.
    """
    lease = aggregator_lease(run_dir)
    deadline_s = time.monotonic() + _DRAIN_S
    helper, was_completed = None, False
    while time.monotonic() < deadline_s and not is_impatient():
        is_over = is_free(lease)
        is_unfinished = has_settings(run_dir) and not has_new_summary(run_dir, earlier_summary)
        if is_over and not was_completed and is_unfinished:
            helper, was_completed = complete_run(run_dir), True
        elif is_over and (helper is None or helper.poll() is not None):
            return
        tick()
