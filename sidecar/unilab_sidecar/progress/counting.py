"""What the iterations of a run count from, and which of them its training has done itself. Pure.

Loops begin at 0 or at 1, one that goes on from a checkpoint at that of the checkpoint. Some log each
iteration, others every tenth.
"""

from __future__ import annotations

from unilab_schema.control import Head
from unilab_schema.identity import RunInfo
from unilab_schema.updates import Update


class Counting:
    """One owner, no locks."""

    def __init__(self) -> None:
        self._last: Update | None = None
        self._step: int | None = None
        """The smallest one from update to update, for a viewer may pass over some."""

    def heed(self, update: Update) -> None:
        """Takes the next update."""
        last, self._last = self._last, update
        if last is not None and last.attempt == update.attempt:
            step = update.iteration - last.iteration
            if step > 0:
                self._step = min(step, self._step or step)

    def done(self, iteration: int, run: RunInfo, head: Head | None) -> int:
        """How many there are up to this one, wherever the run began. A run that began at 0 or at 1
        says so itself. Of others on-policy ones count from 0 and off-policy ones from 1, as their
        usual loops do."""
        first = None if head is None else head.first_iteration
        from_0 = first == 0 if first in (0, 1) else run.step_axis == "iteration"
        return iteration + from_0

    def own(self, iteration: int, run: RunInfo, head: Head | None) -> int | None:
        """How many of them this attempt has done up to this one; ``None`` as long as nobody can say:
        the iteration of a first update may be a checkpoint's, or that of the first log of many."""
        first = None if head is None else head.first_iteration
        if head is not None and head.attempt_iteration is not None:
            first = head.attempt_iteration
        if first is None or first <= 1:
            return self.done(iteration, run, head)
        return None if self._step is None else iteration - max(first - self._step, 0)
