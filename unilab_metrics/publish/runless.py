"""The end of a process whose run does not exist: it was never found, or has been removed.

Nobody will ever look for its spool, which would stay in the node's memory.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from unilab_metrics.publish import losses
from unilab_metrics.publish.spool import Spool
from unilab_metrics.publish.warning import warn_caller

NO_RUN_TIMEOUT_S = 5.0
"""How long ``close()`` waits for a run that nobody has opened yet."""

LacksRun = Callable[[], str]
"""What is missing, as long as no run is known; otherwise empty."""


def has_run() -> str:
    """For a publisher whose run is sure to come."""
    return ""


def abandon(spool: Spool, records: int, text: str) -> None:
    """Remove a spool that no run will ever take in, count ``records`` of it and warn once.
    Called by what ``Publisher.close()`` calls."""
    spool.losses.count(losses.NO_RUN, records)
    spool.losses.keep(text)
    spool.close(remove=True)
    with suppress(OSError):
        spool.directory.parent.rmdir()
    warn_caller(text)
