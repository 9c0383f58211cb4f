"""When the training of each attempt began, on the clock by which its updates were sealed. Pure.

An update says how long rank 0 had trained. An announcement says how long the training goes on, which
is longer where ranks do not wait for each other; of the past nobody announces it any more. From one
announcement, or the end, follows what it was at every update of the same attempt.
"""

from __future__ import annotations

from unilab_schema.control import Head
from unilab_schema.identity import LEARNER
from unilab_schema.updates import Update

_MOST_ATTEMPTS = 64
_APART_S = 1.0
"""By which rank 0 may be ahead, whose clock may be another node's."""


class TrainingClock:
    """One owner, no locks."""

    def __init__(self) -> None:
        self._begins_s: dict[int, float] = {}
        self._last: Update | None = None
        self._lasted_s: float | None = None

    def seen(self, update: Update) -> None:
        """Takes the next update that has come."""
        if self._last is not None and update.attempt != self._last.attempt:
            self._lasted_s = None
        self._last = update

    def heed(self, head: Head) -> None:
        """Takes an announcement. Its time goes on while a learner is at work."""
        last = self._last
        if head.training_s is None or last is None or last.attempt != head.attempt:
            return
        learners = [one.state for one in head.sources if one.key.role == LEARNER]
        if head.ended is not None:
            self.ended(head.training_s)
        elif not learners or "live" in learners:
            self._begins_s.pop(head.attempt, None)
            self._begins_s[head.attempt] = head.mono_ns / 1e9 - head.training_s
            if len(self._begins_s) > _MOST_ATTEMPTS:
                del self._begins_s[next(iter(self._begins_s))]

    def ended(self, training_s: float) -> None:
        """How long the training of the newest attempt took: until its last update."""
        self._lasted_s = training_s

    def forget(self) -> None:
        """What comes now is of another place or run."""
        self._begins_s.clear()
        self._last = self._lasted_s = None

    def at(self, update: Update) -> float | None:
        """Seconds of training when the update was sealed, earlier attempts included; ``None`` where
        nobody knows."""
        begin_s, last = self._begins_s.get(update.attempt), self._last
        lasted_s = self._lasted_s
        if begin_s is None and lasted_s is not None and last is not None:
            # With the last update all ranks were through, unless it was not waited for them.
            is_end = last.ranks_reported >= last.ranks_expected
            if is_end and last.attempt == update.attempt:
                begin_s = last.sealed_mono_ns / 1e9 - lasted_s
        if begin_s is None:
            return None
        training_s = update.sealed_mono_ns / 1e9 - begin_s
        # Less than rank 0's: the clock was another node's then.
        return training_s if training_s >= update.elapsed_s - _APART_S else None
