"""Each source's newest frame of each key set, by reference: what a table of ranks is made from.

Nothing is decoded here until somebody asks. It is no part of the run's data: a snapshot is made
without it, and after a restart it fills with the frames that are folded again and with new ones.
Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from unilab_schema.frames import IterationFrame, ReportFrame, SparseFrame

MAX_FRAMES = 64
"""Of one source: as many as it may have layouts; of sparse frames the newest ones."""
MAX_BYTES = 32 * 1024 * 1024
"""Of all values and weights together; beyond, everything is forgotten, and comes anew."""
_FRAME_BYTES = 300
"""Of a frame beside its values, about."""

ValueFrame = IterationFrame | ReportFrame | SparseFrame

_NONE: Mapping[int, ValueFrame] = {}


class NewestFrames:
    """Owned by the aggregator's only thread.

    ``kept``: by source and key set. Who finds a frame there may put a newer one into its place
    without a call: that is done for every frame of the run.
    """

    def __init__(self) -> None:
        self.kept: defaultdict[int, dict[int, ValueFrame]] = defaultdict(dict)
        self._tags: dict[int, tuple[str, ...]] = {}
        self._bytes = 0

    def keep(self, source: int, key_set: int, tags: tuple[str, ...], frame: ValueFrame) -> None:
        """A frame, newer than what is kept of its key set."""
        kept = self.kept[source]
        if key_set in kept:
            kept[key_set] = frame
            return
        size = _size(tags)
        if self._bytes + size > MAX_BYTES:
            self.clear()
            kept = self.kept[source]
        if len(kept) >= MAX_FRAMES:
            oldest = next(iter(kept))
            del kept[oldest]
            self._bytes -= _size(self._tags[oldest])
        kept[key_set] = frame
        self._tags[key_set] = tags
        self._bytes += size
        if len(self._tags) > 2 * MAX_FRAMES + sum(map(len, self.kept.values())):
            used = {number for kept in self.kept.values() for number in kept}
            self._tags = {number: self._tags[number] for number in used}

    def of(self, source: int) -> Mapping[int, ValueFrame]:
        """Key sets and their newest frames; the stamps say which of two is newer."""
        return self.kept.get(source, _NONE)

    def tags(self, key_set: int) -> tuple[str, ...]:
        """The tags of a key set of which a frame is kept."""
        return self._tags[key_set]

    def clear(self) -> None:
        """Forget everything."""
        self.kept.clear()
        self._tags.clear()
        self._bytes = 0


def _size(tags: tuple[str, ...]) -> int:
    # With weights, whether it has them or not.
    return 16 * len(tags) + _FRAME_BYTES
