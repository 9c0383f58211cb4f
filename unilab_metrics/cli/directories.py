"""The run directory that a command was given."""

from __future__ import annotations

from pathlib import Path

from unilab_metrics.config import RUN_CONFIG_FILE
from unilab_metrics.errors import RunNotFoundError
from unilab_metrics.transport.rendezvous import bus_directory


def existing_run(run_dir: Path) -> Path:
    """``run_dir``, if a run was opened there. Raises ``RunNotFoundError``, also for one that
    this user may not look at."""
    try:
        if not run_dir.is_dir():
            raise RunNotFoundError(run_dir, "no such directory")
        if not bus_directory(run_dir).is_dir() and not (run_dir / RUN_CONFIG_FILE).is_file():
            raise RunNotFoundError(run_dir, "holds no run")
    except OSError as error:
        raise RunNotFoundError(run_dir, f"cannot be looked at: {error.strerror}") from error
    return run_dir
