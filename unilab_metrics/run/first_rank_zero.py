"""Whether a process that opens a run as its rank 0 is the second one there.

The second is refused once it says Hello. Before that it must not put its own configuration and
backends in the place of the first one's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from unilab_metrics.run.bus_settings import read_settings
from unilab_metrics.storage import lease
from unilab_metrics.storage.process_table import is_ending
from unilab_metrics.storage.rank_zero_spool import is_of_open_rank_zero
from unilab_metrics.storage.spool_reader import LEASE_NAME
from unilab_metrics.transport.rendezvous import aggregator_lease


def has_rank_zero(run_dir: Path) -> bool:
    """Whether a learner of rank 0 is at work in the run: another process of this node that lives
    and has not said goodbye. Never raises for what cannot be seen."""
    try:
        if lease.is_free(aggregator_lease(run_dir)):
            # Nobody would refuse us.
            return False
        return any(is_of_open_rank_zero(spool) for spool in _held_spools(run_dir))
    except OSError:
        return False


def _held_spools(run_dir: Path) -> Iterator[Path]:
    for root in map(Path, read_settings(run_dir).spools):
        if not root.is_dir():
            continue
        for directory in root.iterdir():
            pid = lease.owner_pid(directory / LEASE_NAME)
            # One that was killed holds its locks until its memory is given back.
            if pid is not None and pid != os.getpid() and not (pid and is_ending(pid)):
                yield directory
