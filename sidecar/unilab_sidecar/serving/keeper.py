"""The connection to another machine that all tabs of a server share."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from unilab_metrics.subscribe.ssh.run_over_ssh import RunOverSsh
from unilab_metrics.subscribe.ssh.shared_way import WayHolder
from unilab_metrics.subscribe.ssh.target import is_ssh_target
from unilab_sidecar.feeding.over_ssh import reach

_STEP_S = 0.1


def hold_way(run: str) -> WayHolder | None:
    """Connect, while ssh can still ask people on the terminal; ``None`` for a run that is not
    reached over ssh. Raises as ``over_ssh.reach``."""
    if not is_ssh_target(run):
        return None
    way = reach(run, waits=False, way=None)
    assert isinstance(way, RunOverSsh)  # noqa: S101 - there is no other without a descriptor
    return WayHolder(way)


class Keeper:
    """Keeps a connection in a thread of its own until :meth:`close`."""

    def __init__(self, holder: WayHolder, is_used: Callable[[], bool]) -> None:
        """``is_used``: whether anybody looks on; asked in the thread."""
        self._holder = holder
        self._is_used = is_used
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ssh", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the connection; the thread is gone then."""
        self._ended.set()
        self._thread.join()
        self._holder.close()

    def _run(self) -> None:
        while not self._ended.wait(_STEP_S):
            # No process, no descriptor just now: there may be again.
            with contextlib.suppress(OSError):
                self._holder.keep(is_looked_at=self._is_used())
