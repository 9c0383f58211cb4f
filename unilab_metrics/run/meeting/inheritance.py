"""What processes of a run pass on to their children through the environment.

``init()`` sets the run, the launch key and the rank. The process that set them must not take
its own old values for somebody's wish when it opens its next run; its children must.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from unilab_metrics.config import (
    ALGORITHM_VARIABLE,
    LAUNCH_VARIABLE,
    RANK_VARIABLE,
    RUN_VARIABLE,
    STRICT_VARIABLE,
    is_true,
)

UNILAB_RUN_VARIABLE = "UNILAB_DP_LOG_DIR"
"""Where UniLab's data-parallel launcher tells its ranks the run directory."""
_VARIABLES = (RUN_VARIABLE, LAUNCH_VARIABLE, RANK_VARIABLE, ALGORITHM_VARIABLE, STRICT_VARIABLE)


class Inherited(NamedTuple):
    """What a parent or a launcher said; ``None`` or empty where it said nothing."""

    run_dir: Path | None
    launch: str
    rank: int | None
    algorithm: str
    strict: bool


class _Own:
    """What this very process put into its environment, and how many runs it has opened."""

    pid: int = 0
    values: dict[str, str] = {}  # noqa: RUF012 (replaced, never changed)
    opened: int = 0


def read(environ: Mapping[str, str], *, of_others: bool) -> Inherited:
    """The environment; ``of_others``: without what this very process set in it."""
    ours = _Own.values if of_others and _Own.pid == os.getpid() else {}
    found = {
        name: environ.get(name, "") for name in _VARIABLES if environ.get(name) != ours.get(name)
    }
    run = found.get(RUN_VARIABLE) or environ.get(UNILAB_RUN_VARIABLE)
    rank = found.get(RANK_VARIABLE, "")
    return Inherited(
        run_dir=Path(run).absolute() if run else None,
        launch=found.get(LAUNCH_VARIABLE, ""),
        rank=int(rank) if rank.isascii() and rank.isdigit() else None,
        algorithm=found.get(ALGORITHM_VARIABLE, ""),
        strict=is_true(found.get(STRICT_VARIABLE, "")),
    )


def pass_on(*, run_dir: Path | None, launch: str, rank: int, algorithm: str, strict: bool) -> None:
    """Set the environment of children to come. A run that is not known yet is not set."""
    values = {
        LAUNCH_VARIABLE: launch,
        RANK_VARIABLE: str(rank),
        ALGORITHM_VARIABLE: algorithm,
        STRICT_VARIABLE: "1" if strict else "0",
    }
    if run_dir is not None:
        values[RUN_VARIABLE] = os.fspath(run_dir)
    else:
        os.environ.pop(RUN_VARIABLE, None)
    os.environ.update(values)
    _Own.pid, _Own.values = os.getpid(), values


def count_opened() -> int:
    """How many runs this process has opened before this call."""
    if _Own.pid != os.getpid():
        _Own.pid, _Own.values, _Own.opened = os.getpid(), {}, 0
    _Own.opened += 1
    return _Own.opened - 1
