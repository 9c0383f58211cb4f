"""Who has a run in hand: its aggregator, or a ``recover`` that completes it. Reads only."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path
from typing import NamedTuple

from unilab_metrics.storage.lease import read_owner, settled_pid
from unilab_metrics.transport.rendezvous import aggregator_lease

_RECOVERY = re.compile(rb"recover pid (\d+) ")


class Holder(NamedTuple):
    """``pid``: 0 in another pid namespace."""

    pid: int
    is_recovery: bool

    def __str__(self) -> str:
        what = "another recover" if self.is_recovery else "a live aggregator"
        return f"{what} (pid {self.pid or 'unknown'})"


def recovery_payload() -> bytes:
    """What a ``recover`` puts into the aggregator's lease, which it holds meanwhile."""
    return f"recover pid {os.getpid()} on {socket.gethostname()}".encode()


def holder_of(run_dir: Path) -> Holder | None:
    """Who holds the run's lease, after a moment for a process that is ending; ``None`` if nobody
    does. Raises ``OSError`` for a lease that may not be asked."""
    path = aggregator_lease(run_dir)
    pid = settled_pid(path)
    if pid is None:
        return None
    said = _RECOVERY.match(read_owner(path) or b"")
    # What lies there may be a dead one's word, of whom the lease has just been taken over.
    return Holder(pid, said is not None and (pid == 0 or int(said[1]) == pid))
