"""How long an aggregator goes on when sources are gone, have not come, or it is told to end."""

from __future__ import annotations

import time
from collections.abc import Callable

from unilab_metrics.aggregate.folding.attendance import missing_learners
from unilab_metrics.aggregate.folding.run_data import RunData
from unilab_metrics.aggregate.options import Options

_ABSENT_GRACE_S = 5.0
"""Ranks that are to come have this long from the start of the aggregator, or of the attempt, when
all that came are gone already."""


def everyone_is_gone(data: RunData) -> bool:
    """Whether there were sources, and each has finished or is lost."""
    return bool(data.sources) and all(source.status != "live" for source in data.sources)


class Patience:
    """Owned by the aggregator's main thread, which is also where its signals come in."""

    def __init__(self, options: Options, data: RunData) -> None:
        self._options = options
        self._data = data
        self._started_s = time.monotonic()
        self._attempt = data.attempt
        self._told_s: float | None = None

    def told_to_end(self, *_: object) -> None:
        """``SIGTERM``: whoever ends a job tells all of its processes at once, so what is still
        under way is awaited."""
        if self._told_s is None:
            self._told_s = time.monotonic()

    def is_over(self, newcomers: Callable[[], frozenset[int]]) -> bool:
        """Whether the loop is to end. ``newcomers``: ranks that publish and are not known."""
        now_s, data = time.monotonic(), self._data
        if self._told_s is not None:
            is_drained = now_s - self._told_s > self._options.drain_s
            if is_drained or not data.sources:
                return True
        if data.attempt != self._attempt:
            self._attempt, self._started_s = data.attempt, now_s
        alive_s = now_s - self._started_s
        if not data.sources:
            return alive_s > self._options.start_grace_s
        if not everyone_is_gone(data):
            return False
        has_begun = missing_learners(data) <= data.waived
        # Asked also while the others have their time anyway: each newcomer's own begins with that.
        is_awaited = bool(newcomers())
        if not has_begun and alive_s <= min(self._options.start_grace_s, _ABSENT_GRACE_S):
            return False
        return not is_awaited
