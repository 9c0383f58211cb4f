"""Publishers of one process in one place of one run: they come one after the other.

A notebook calls ``init()`` again before it has closed what came before. The first one is heard
first, and so has the earlier attempt; its end does not wait for those of the later ones. Who closes
a later one has done with the earlier ones too, whose place it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic_ns

from unilab_metrics.publish.delivery import Delivery
from unilab_schema.identity import Identity

PATIENCE_NS = 5_000_000_000
"""How long a later one, which could be heard, waits until the earlier one has been."""
_open: list[Turn] = []
"""In the order of their starts. Without a lock, which a fork could copy while it is held."""


class Turn:
    """Of one publisher. Owned as its ``Prospects``; others of the process read it."""

    def __init__(
        self, identity: Identity, delivery: Delivery, find_run: Callable[[], Path | None]
    ) -> None:
        """``find_run``: the run directory as far as it is known."""
        self.identity = identity
        self._delivery = delivery
        self.find_run = find_run
        self.close: Callable[[float], object] | None = None
        """Of its publisher, which takes the seconds to wait at most."""
        self._waits_since_ns = 0
        self._earlier = [turn for turn in list(_open) if turn.is_beside(self)]
        _open.append(self)

    @property
    def has_come(self) -> bool:
        """Whether nobody of this process is to be heard before this one."""
        if not self._earlier:
            return True
        now = monotonic_ns()
        self._waits_since_ns = self._waits_since_ns or now
        is_over = now - self._waits_since_ns >= PATIENCE_NS
        if is_over or not any(turn.is_unheard_in(self.find_run()) for turn in self._earlier):
            self._earlier.clear()
        return not self._earlier

    @property
    def is_followed(self) -> bool:
        """Whether a later one of this process waits for the end of this one."""
        if len(_open) < 2:
            return False
        opened = list(_open)
        later = opened[opened.index(self) + 1 :] if self in opened else []
        run_dir = self.find_run()
        return run_dir is not None and any(
            turn.is_beside(self) and turn.find_run() == run_dir for turn in later
        )

    def end_earlier(self, timeout_s: float) -> float:
        """Close the open ones that have this one's place, all within ``timeout_s``. Returns the
        seconds that are left of it."""
        opened = list(_open)
        run_dir = self.find_run()
        began_ns = monotonic_ns()
        left_s = timeout_s
        for turn in opened[: opened.index(self)] if self in opened else []:
            if turn.close is not None and turn.is_beside(self) and turn.find_run() == run_dir:
                turn.close(left_s)
                left_s = max(timeout_s - (monotonic_ns() - began_ns) / 1e9, 0.0)
        return left_s

    def end(self) -> None:
        """It is closed; idempotent."""
        with suppress(ValueError):
            _open.remove(self)

    def is_beside(self, another: Turn) -> bool:
        """Whether both are of one process, not of one that it was forked from, and one place."""
        mine, other = self.identity, another.identity
        return (mine.pid, mine.key) == (other.pid, other.key)

    def is_unheard_in(self, run_dir: Path | None) -> bool:
        """Whether this one is open, and no aggregator of that run has answered it yet."""
        is_open = self in _open and not self._delivery.answered_ns
        return is_open and self.find_run() == run_dir
