"""What rank 0 does to open a run: its directory, its files, its aggregator."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from unilab_metrics.config import AGGREGATOR_LOG_FILE
from unilab_metrics.errors import StorageError
from unilab_metrics.helper_life import Trouble
from unilab_metrics.run.bus_settings import add_spools, read_settings, write_settings
from unilab_metrics.run.first_rank_zero import has_rank_zero
from unilab_metrics.run.launching.announced_runs import announce_to_launcher
from unilab_metrics.run.meeting.launch_file import announce_run
from unilab_metrics.run.meeting.launch_key import ProcessName
from unilab_metrics.run.processes import Helper, last_log_line, start_aggregator
from unilab_metrics.run.supervision import AGGREGATOR_HUNG_AFTER_S, Supervisor
from unilab_metrics.run.tracker import write_run_config
from unilab_metrics.storage.filesystem import private_directory
from unilab_metrics.storage.lease import is_free
from unilab_metrics.transport import registry
from unilab_metrics.transport.rendezvous import aggregator_lease, bus_directory
from unilab_schema.identity import RunInfo


def open_run(
    run_dir: Path,
    *,
    run: RunInfo,
    config: Mapping[str, Any],
    launch: str,
    keeper: ProcessName | None,
    backends: Sequence[str],
    log_interval: int,
    started: datetime,
    bind: str = "",
    alerts: Sequence[str] = (),
) -> Path:
    """Make the run in its directory and tell the other local ranks of it; the absolute path.

    ``run_dir``: where it is to be; a run that lies there already goes on. ``keeper``: a
    launcher that may start this rank again. Raises ``OSError`` and ``StorageError`` if there
    can be no run.
    """
    run_dir.mkdir(parents=True, exist_ok=True)
    run_dir = run_dir.resolve()
    private_directory(bus_directory(run_dir))
    is_second = has_rank_zero(run_dir)
    if is_second:
        add_spools(run_dir, launch)
    else:
        write_settings(
            run_dir,
            launch=launch,
            backends=backends,
            log_interval=log_interval,
            bind=bind,
            alerts=alerts,
        )
        write_run_config(run_dir, run, config, started)
    # The file of one launch is the first one's, and must not go with the second.
    if not is_second or read_settings(run_dir).launch != launch:
        with contextlib.suppress(OSError, StorageError):
            # Without it the other ranks need the directory as an argument or from the environment.
            announce_run(launch, run_dir, keeper)
    # The aggregator does it again, but whoever looks now is to see that a run is coming.
    registry.register(run_dir, os.getpid())
    announce_to_launcher(os.environ, run_dir)
    return run_dir


def supervise_aggregator(run_dir: Path, report: Callable[[Trouble], None]) -> Supervisor:
    """Keeps the aggregator of a run that :func:`open_run` opened alive; not started yet."""
    lease = aggregator_lease(run_dir)

    def start() -> Helper:
        return _start(run_dir)

    return Supervisor(
        start,
        is_taken=lambda: not is_free(lease),
        report=report,
        last_words=lambda: last_log_line(run_dir, AGGREGATOR_LOG_FILE),
        # It may have called a process dead that lives, so only that process knows.
        is_final=False,
        hung_after_s=AGGREGATOR_HUNG_AFTER_S,
    )


def complete_run(run_dir: Path) -> Helper | None:
    """Start an aggregator for a run whose processes are gone: it takes what they left, and
    ends. ``None`` if it cannot be started; never raises."""
    try:
        return _start(run_dir)
    except Exception:  # noqa: BLE001 (whatever it is, the training is over)
        return None


def _start(run_dir: Path) -> Helper:
    settings = read_settings(run_dir)
    return start_aggregator(
        run_dir,
        spools=[Path(spool) for spool in settings.spools],
        backends=settings.backends,
        log_interval=settings.log_interval,
    )
