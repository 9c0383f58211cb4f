"""What processes of a run pass on to their children through the environment.

``init()`` sets the run, the launch key and the rank. The process that set them must not take
its own old values for somebody's wish when it opens its next run; its children must.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from unilab_metrics.config import LAUNCH_VARIABLE, RANK_VARIABLE, RUN_VARIABLE

UNILAB_RUN_VARIABLE = "UNILAB_DP_LOG_DIR"
"""Where UniLab's data-parallel launcher tells its ranks the run directory."""


class Inherited(NamedTuple):
    """What a parent or a launcher said; ``None`` where it said nothing."""

    run_dir: Path | None
    launch: str | None
    rank: int | None


class _Own:
    """What this very process put into its environment."""

    pid = 0
    values: dict[str, str] = {}
    opened = 0


def read(environ: Mapping[str, str]) -> Inherited:
    """The environment as others left it."""
    ours = _Own.values if _Own.pid == os.getpid() else {}
    found = {
        name: environ.get(name)
        for name in (RUN_VARIABLE, LAUNCH_VARIABLE, RANK_VARIABLE)
        if environ.get(name) != ours.get(name, "")
    }
    run = found.get(RUN_VARIABLE) or environ.get(UNILAB_RUN_VARIABLE)
    rank = found.get(RANK_VARIABLE) or ""
    return Inherited(
        run_dir=Path(run).absolute() if run else None,
        launch=found.get(LAUNCH_VARIABLE) or None,
        rank=int(rank) if rank.isascii() and rank.isdigit() else None,
    )


def pass_on(*, run_dir: Path | None, launch: str, rank: int) -> None:
    """Set the environment of children to come. A run that is not known yet is not set."""
    values = {LAUNCH_VARIABLE: launch, RANK_VARIABLE: str(rank)}
    if run_dir is not None:
        values[RUN_VARIABLE] = os.fspath(run_dir)
    elif _Own.pid == os.getpid() and RUN_VARIABLE in _Own.values:
        os.environ.pop(RUN_VARIABLE, None)
    os.environ.update(values)
    _Own.pid, _Own.values = os.getpid(), values


def count_opened() -> int:
    """How many runs this process has opened before; the next call says one more."""
    if _Own.pid != os.getpid():
        _Own.opened = 0
        _Own.pid, _Own.values = os.getpid(), {}
    _Own.opened += 1
    return _Own.opened - 1
