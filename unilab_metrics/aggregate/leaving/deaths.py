"""How the processes of sources ended, as far as the system or a launcher of ours tells.

Nobody but its parent may wait for a process. The system tells the others while it is a zombie,
and from Linux 6.15 on whoever has watched it; a launcher of ours leaves a note.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.storage.endings import noted_status
from unilab_metrics.storage.process_table import Watched, pid_space
from unilab_metrics.transport.crowd import descriptor_limit
from unilab_schema.identity import Identity

_MOST_WATCHED = 512
_SHARE = 16
"""Each costs a descriptor, so at most that part of them is used for it."""


class Deaths:
    """Watches the sources of this node. Owned by the aggregator's main thread."""

    def __init__(self, bus_dir: Path | None, boot_id: str) -> None:
        """``bus_dir``: where launchers leave their notes."""
        self._bus_dir = bus_dir
        self._boot_id = boot_id
        self._pid_space = pid_space()
        self._watched: dict[int, Watched] = {}
        self._most = min(_MOST_WATCHED, descriptor_limit() // _SHARE)

    def watch(self, source: SourceState) -> None:
        """A source that lives; cheap when it is known."""
        identity = source.identity
        if source.index in self._watched or not self._is_here(identity):
            return
        if len(self._watched) < self._most:
            self._watched[source.index] = Watched(identity.pid, identity.started_mono_ns)

    def forget(self, source: SourceState) -> None:
        """Hold nothing for it any more."""
        watched = self._watched.pop(source.index, None)
        if watched is not None:
            watched.close()

    def close(self) -> None:
        """Hold nothing any more."""
        for watched in self._watched.values():
            watched.close()
        self._watched.clear()

    def _is_here(self, identity: Identity) -> bool:
        is_our_pid = identity.pid_space in {0, self._pid_space}
        return is_our_pid and identity.boot_id == self._boot_id

    def status_of(self, source: SourceState) -> int | None:
        """The exit code of a dead source's process, negative for a signal, if it is known."""
        identity = source.identity
        if not self._is_here(identity):
            return None
        self.watch(source)
        watched = self._watched.get(source.index)
        status = None if watched is None else watched.wait_status()
        if status is not None:
            return os.waitstatus_to_exitcode(status)
        if self._bus_dir is None:
            return None
        return noted_status(self._bus_dir, identity.pid, identity.started_mono_ns)


def ending_words(status: int | None) -> str:
    """How a process ended that said no goodbye, from its exit code (negative: a signal); empty
    if that is not known. Pure."""
    if status is None:
        return ""
    if status >= 0:
        return f"exit code {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
