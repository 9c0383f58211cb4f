"""Starting the aggregator in the place of a rank 0 that has died together with it.

Only rank 0 looks after the aggregator. Where both are killed at once, the frames of the others
would wait, and the run would have no end, until somebody starts it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from unilab_metrics.helper_life import Trouble
from unilab_metrics.run.meeting.launch_file import is_alive, rank_0_of
from unilab_metrics.run.meeting.launch_key import ProcessName
from unilab_metrics.run.opening import supervise_aggregator
from unilab_metrics.run.supervision import Supervisor
from unilab_metrics.storage.lease import is_free
from unilab_metrics.transport.rendezvous import aggregator_lease

FIRST_AFTER_S = 2.0
EACH_RANK_S = 0.5
_LATEST_AFTER_S = 6.0
"""The lowest rank of the node comes first. A second aggregator would be refused."""
_MOST_STARTS = 3
"""A run that is over may have a process left, and needs no aggregator for it."""


class StandIn:
    """For a process of the training that is not rank 0 and is on rank 0's node.

    Called about once a second by the shipper's thread; never waits, never raises.
    """

    def __init__(
        self,
        launch: str,
        rank: int,
        *,
        find_run: Callable[[], Path | None],
        report: Callable[[Trouble], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._launch = launch
        self._after_s = min(FIRST_AFTER_S + EACH_RANK_S * rank, _LATEST_AFTER_S)
        self._find_run = find_run
        self._report = report
        self._clock = clock
        self._rank_0: ProcessName | None = None
        self._orphaned_s: float | None = None
        self._supervisor: Supervisor | None = None

    def __call__(self, *, hurry: bool) -> str:
        """What is wrong with the aggregator that this process has started, if anything is."""
        if self._supervisor is None:
            run_dir = self._find_run()
            if run_dir is None or not self._is_needed(run_dir):
                return ""
            self._supervisor = supervise_aggregator(run_dir, self._report)
        supervisor = self._supervisor
        if supervisor.process is None and supervisor.starts >= _MOST_STARTS:
            return ""
        return supervisor(hurry=hurry)

    def _is_needed(self, run_dir: Path) -> bool:
        if self._rank_0 is None:
            # Kept, because others sweep the file away when its writer is dead.
            self._rank_0 = rank_0_of(self._launch)
        if self._rank_0 is None or is_alive(self._rank_0) or not _is_free(run_dir):
            self._orphaned_s = None
            return False
        now_s = self._clock()
        if self._orphaned_s is None:
            self._orphaned_s = now_s
        return now_s - self._orphaned_s >= self._after_s


def _is_free(run_dir: Path) -> bool:
    try:
        return is_free(aggregator_lease(run_dir))
    except OSError:
        return False
