"""Completing a backend of a run that nobody is at work on."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NamedTuple

from unilab_metrics.aggregate.process_log import say
from unilab_metrics.errors import (
    LeaseHeldError,
    MissingPackageError,
    StorageFullError,
    UnilabMetricsError,
    why,
)
from unilab_metrics.write.process import make_backend
from unilab_metrics.write.writer import run_writer

AGAIN = "free space and run it again"
_FULL = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT})


class BackendResult(NamedTuple):
    """``before`` and ``after``: last update sequence that the backend held. ``problem``: why
    it is not complete, empty if it is."""

    name: str
    before: int
    after: int
    problem: str = ""


def complete_backend(run_dir: Path, name: str, log_interval: int, last: int) -> BackendResult:
    """Bring one backend up to ``last`` in this process, without an aggregator. Never raises for
    what the backend or the disk refuses."""
    positions: list[int] = []

    def listen(text: str) -> None:
        # The first word comes when the backend has found its position.
        positions.append(backend.update)
        if text.startswith(f"{name} failed: "):
            say(text)

    try:
        backend = make_backend(name, run_dir, log_interval)
    except (ValueError, MissingPackageError) as error:
        return BackendResult(name, 0, 0, str(error))
    problem = ""
    try:
        run_writer(
            run_dir,
            backend,
            stop=lambda: True,
            log=listen,
            follow=False,
        )
    except LeaseHeldError as error:
        problem = f"a writer is at work (pid {error.pid})"
    except (OSError, UnilabMetricsError) as error:
        words = _words(error)
        problem = f"{words}; {AGAIN}" if is_full(error) else words
    before = positions[0] if positions else 0
    if not problem and backend.update < last:
        problem = f"lacks the updates after {backend.update}"
    elif not problem and backend.update > last:
        problem = f"holds updates up to {backend.update:,}, more than the journal has"
    return BackendResult(name, before, backend.update, problem)


def _words(error: OSError | UnilabMetricsError) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {why(error)}"
    return str(error)


def is_full(error: BaseException | None) -> bool:
    """Whether there was no room, which what it became of says no longer."""
    while error is not None:
        number = getattr(error, "errno", None) or getattr(error, "error_number", None)
        if isinstance(error, StorageFullError) or number in _FULL:
            return True
        error = error.__cause__
    return False
