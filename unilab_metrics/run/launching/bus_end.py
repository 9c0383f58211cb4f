"""The end of a run as its launcher sees it: the aggregator has taken all that there is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from unilab_metrics.config import RUN_SUMMARY_FILE
from unilab_metrics.run.bus_settings import has_settings
from unilab_metrics.run.opening import complete_run
from unilab_metrics.storage.lease import is_free
from unilab_metrics.transport.rendezvous import aggregator_lease

_DRAIN_S = 15.0


def summary_stamp(run_dir: Path) -> int:
    """Changes with each summary of the run that is written; 0 without one."""
    try:
        return os.stat(run_dir / RUN_SUMMARY_FILE).st_mtime_ns
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
    ``earlier_summary``: as of :func:`summary_stamp` before the training. ``tick`` takes a moment.
    """
    lease = aggregator_lease(run_dir)
    deadline_s = time.monotonic() + _DRAIN_S
    helper, was_completed = None, False
    while time.monotonic() < deadline_s and not is_impatient():
        is_over = is_free(lease)
        is_unfinished = has_settings(run_dir) and summary_stamp(run_dir) == earlier_summary
        if is_over and not was_completed and is_unfinished:
            helper, was_completed = complete_run(run_dir), True
        elif is_over and (helper is None or helper.poll() is not None):
            return
        tick()
