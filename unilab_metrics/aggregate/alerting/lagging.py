"""Which writers are behind, in updates and in time. Pure; time is passed in.

One that reads in pieces, or has a slow second, is not behind: it lacks at least a hundred updates,
and all that came in the last minute, before it is. It has caught up when it holds what there was
five seconds ago.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from unilab_metrics.aggregate.alerting.change import Change
from unilab_metrics.wording import counted
from unilab_schema.control import BackendStatus
from unilab_schema.frames import Scalar

BEHIND_S = 60.0
BEHIND_UPDATES = 100
CAUGHT_UP_S = 5.0
RULE = "writer_behind"
_STEP_S = 1.0


class Lagging:
    """Owned by the aggregator's main thread."""

    def __init__(self) -> None:
        self._committed: deque[tuple[float, int]] = deque()

    def look(
        self,
        now_s: float,
        committed: int,
        backends: Iterable[BackendStatus],
        opened: frozenset[str],
    ) -> list[Change]:
        """What has changed. ``opened``: subjects whose alert is open."""
        marks = self._committed
        if not marks or now_s - marks[-1][0] >= _STEP_S:
            marks.append((now_s, committed))
        while len(marks) > 1 and now_s - marks[1][0] >= BEHIND_S:
            marks.popleft()
        changes: list[Change] = []
        for backend in backends:
            subject = f"writer of {backend.name}"
            lacks = committed - backend.update
            if subject in opened:
                recent = max((n for at, n in marks if now_s - at >= CAUGHT_UP_S), default=committed)
                if backend.update >= recent:
                    changes.append(Change(RULE, subject, f"{subject} has caught up", began=False))
                continue
            is_long = now_s - marks[0][0] >= BEHIND_S and backend.update < marks[0][1]
            if lacks < BEHIND_UPDATES or not is_long:
                continue
            why = f": {backend.text}" if backend.text else ""
            text = f"{subject} is {counted(lacks, 'update')} and over {BEHIND_S:.0f} s behind{why}"
            facts: dict[str, Scalar] = {"severity": "warn", "updates": lacks}
            changes.append(Change(RULE, subject, text, True, facts))
        return changes
