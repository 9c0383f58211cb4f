"""The run directory that a command was given."""

from __future__ import annotations

import os
from pathlib import Path

from unilab_metrics.config import RUN_CONFIG_FILE
from unilab_metrics.errors import RunNotFoundError
from unilab_metrics.transport.rendezvous import bus_directory


def existing_run(run_dir: Path) -> Path:
    """``run_dir``, if a run was opened there. Raises ``RunNotFoundError``, also for one that
    this user may not look at."""
    try:
        if not run_dir.is_dir():
            raise RunNotFoundError(run_dir, _what_it_is(run_dir))
        if not bus_directory(run_dir).is_dir() and not (run_dir / RUN_CONFIG_FILE).is_file():
            raise RunNotFoundError(run_dir, "holds no run")
    except OSError as error:
        raise RunNotFoundError(run_dir, f"cannot be looked at: {error.strerror}") from error
    return run_dir


def _what_it_is(path: Path) -> str:
    if path.is_symlink():
        return "is a link that leads to no directory"
    return "is no directory" if os.path.lexists(path) else "no such directory"
