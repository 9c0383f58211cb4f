"""Whether a run that has ended has begun again, before anybody announces it: what a viewer asks."""

from __future__ import annotations

from pathlib import Path

import msgspec

from unilab_metrics.errors import StorageError
from unilab_metrics.storage import lease
from unilab_metrics.storage.orphans import is_abandoned
from unilab_metrics.storage.process_table import is_ending
from unilab_metrics.storage.rank_zero_spool import is_of_open_rank_zero
from unilab_metrics.storage.spool_reader import LEASE_NAME
from unilab_metrics.subscribe.abandoned import spools_of


def has_begun_again(run_dir: Path) -> bool:
    """Whether a rank 0 of this machine is at work on the run that has ended: it opens the next
    attempt as soon as there is an aggregator for it. That of the attempt which has ended is gone, or
    has said goodbye. Never raises."""
    try:
        return any(_is_at_work(spool) for spool in spools_of(run_dir))
    except (OSError, ValueError, StorageError, msgspec.MsgspecError, RecursionError):
        return False


def _is_at_work(spool: Path) -> bool:
    if is_abandoned(spool):
        return False
    pid = lease.owner_pid(spool / LEASE_NAME)
    # One that was killed holds its locks until its memory is given back.
    return not (pid and is_ending(pid)) and is_of_open_rank_zero(spool)
