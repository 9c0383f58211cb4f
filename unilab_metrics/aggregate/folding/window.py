"""Open iterations: what every learner rank has supplied so far, and who is done. Pure.

A rank is done with iteration k when a frame of k says so (``more`` is false) or when it
sends a later iteration. What it still sends for k is late, whether or not the others are done
and k is sealed: so no number depends on when a frame came. Windows are sealed in ascending
order of iteration, late ones after the iteration itself.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import msgspec

_FRAME_BYTES = 200
"""Of a frame beside its values, about."""


class Values(msgspec.Struct, frozen=True, array_like=True):
    """One frame's values: a number of an interned key set and packed float64."""

    key_set: int
    values: bytes
    weights: bytes
    already_reduced: bool = False


class RankShare(msgspec.Struct, array_like=True):
    """What one learner source supplied for one iteration. Stamps are of its newest frame."""

    source: int
    rank: int
    mono_ns: int
    unix_ns: int
    env_steps: int | None = None
    frames: list[Values] = []


class Window(msgspec.Struct, array_like=True):
    """An iteration that is not sealed. ``shares`` by source; ``done``: sources that are."""

    iteration: int
    shares: dict[int, RankShare] = {}
    done: set[int] = set()
    held_bytes: int = 0


class Windows(msgspec.Struct, array_like=True, dict=True):
    """All open windows of the attempt, supplements' windows apart from the iterations'. Thousands
    may be open, so whatever is asked of each that is sealed must not look at all of them.

    ``finished_through``: per source the highest iteration that it is done with. ``held_bytes``:
    of the values in them.
    """

    open: dict[int, Window] = {}
    late: dict[int, Window] = {}
    finished_through: dict[int, int] = {}
    last_sealed: int | None = None
    held_bytes: int = 0

    def add(self, share: RankShare, iteration: int, values: Values | None, *, more: bool) -> Window:
        """Take a frame (``None``: one without values that count). Returns where it went."""
        late = self.is_sealed(iteration) or self.is_done(share.source, iteration)
        windows = self.late if late else self.open
        window = windows.get(iteration)
        if window is None:
            window = windows[iteration] = Window(iteration)
            if not late:
                heappush(self._ascending, iteration)
        known = window.shares.get(share.source)
        if known is None:
            window.shares[share.source] = known = share
        else:
            known.mono_ns = share.mono_ns
            known.unix_ns = share.unix_ns
            if share.env_steps is not None:
                known.env_steps = share.env_steps
        if values is not None:
            known.frames.append(values)
            size = len(values.values) + len(values.weights) + _FRAME_BYTES
            window.held_bytes += size
            self.held_bytes += size
        through = iteration - 1 if more else iteration
        if through > self.finished_through.get(share.source, through - 1):
            self.finished_through[share.source] = through
        if late and not more:
            window.done.add(share.source)
        return window

    def replace(self, window: Window, source: int, merged: list[Values]) -> None:
        """The same values of a source in fewer frames."""
        share = window.shares[source]
        growth = sum(map(_held_bytes, merged)) - sum(map(_held_bytes, share.frames))
        window.held_bytes += growth
        self.held_bytes += growth
        share.frames = merged

    def is_done(self, source: int, iteration: int) -> bool:
        """Whether the source will send nothing more for the iteration."""
        return self.finished_through.get(source, iteration - 1) >= iteration

    def is_sealed(self, iteration: int) -> bool:
        """Whether the iteration is published, or passed over."""
        return self.last_sealed is not None and iteration <= self.last_sealed

    def ripe(self) -> list[int]:
        """Iterations with late values that can be told what they lack, in ascending order."""
        if not self.late:
            return []
        # One beyond the last sealed whose own window is gone cannot be waited for.
        is_nothing_open = not self.open
        return sorted(k for k in self.late if is_nothing_open or self.is_sealed(k))

    def lowest(self) -> Window | None:
        """The open window that must be sealed first."""
        ascending = self._ascending
        while ascending and ascending[0] not in self.open:
            heappop(ascending)
        return self.open[ascending[0]] if ascending else None

    @property
    def _ascending(self) -> list[int]:
        """A heap of the open iterations, and perhaps of some that are not open any more. It is in
        no snapshot."""
        own = vars(self)
        made: list[int] | None = own.get("ascending")
        if made is None:
            made = own["ascending"] = list(self.open)
            heapify(made)
        return made

    def close(self, iteration: int, *, supplement: bool) -> Window | None:
        """Take a window out. ``None`` when nobody supplied anything for it."""
        if supplement:
            return self._released(self.late.pop(iteration, None))
        if self.last_sealed is None or iteration > self.last_sealed:
            self.last_sealed = iteration
        # Windows are sealed in ascending order: the decision for a lower one could not be read.
        while (lowest := self.lowest()) is not None and lowest.iteration < iteration:
            self._released(self.open.pop(lowest.iteration))
        return self._released(self.open.pop(iteration, None))

    def _released(self, window: Window | None) -> Window | None:
        if window is not None:
            self.held_bytes -= window.held_bytes
        return window

    def forget(self, source: int) -> int:
        """Take a source's shares out of what is not sealed; how many frames that were."""
        forgotten = 0
        for windows in (self.open, self.late):
            for iteration, window in list(windows.items()):
                if self.is_sealed(iteration):
                    continue
                share = window.shares.pop(source, None)
                window.done.discard(source)
                if share is not None:
                    forgotten += len(share.frames)
                    size = sum(map(_held_bytes, share.frames))
                    window.held_bytes -= size
                    self.held_bytes -= size
                if not window.shares:
                    del windows[iteration]
        self.finished_through.pop(source, None)
        return forgotten

    def reset(self) -> None:
        """A new attempt: iterations may start anywhere again."""
        self.open.clear()
        self._ascending.clear()
        self.late.clear()
        self.finished_through.clear()
        self.last_sealed = None
        self.held_bytes = 0


def _held_bytes(values: Values) -> int:
    return len(values.values) + len(values.weights) + _FRAME_BYTES
