"""The end of a process that asked for a run and never found one.

Nobody will ever look for its spool, which would stay in the node's memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress

from unilab_metrics.publish import losses
from unilab_metrics.publish.spool import Spool

NO_RUN_TIMEOUT_S = 5.0
"""How long ``close()`` waits for a run that nobody has opened yet."""

LacksRun = Callable[[], str]
"""What is missing, as long as no run is known; otherwise empty."""


def has_run() -> str:
    """For a publisher whose run is sure to come."""
    return ""


def abandon(spool: Spool, reason: str) -> None:
    """Remove a spool that no run will ever take in, count its records and warn once."""
    spool.losses.count(losses.NO_RUN, spool.last)
    spool.close(remove=True)
    with suppress(OSError):
        spool.directory.parent.rmdir()
    with suppress(RuntimeWarning):  # warnings may be errors here; a training goes on
        warnings.warn(f"nothing of this process is logged: {reason}", RuntimeWarning, stacklevel=4)
