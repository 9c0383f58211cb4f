"""Each source's frames of the last two seconds, by reference, while somebody asks for the ranks: what
means of single ranks are made from.

Nothing is decoded here until somebody asks, and nothing is kept while nobody does. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from unilab_metrics.aggregate.folding.newest_frames import ValueFrame

WINDOW_NS = 2_000_000_000
"""As of the means that viewers make of all ranks together."""
ASKED_NS = 10_000_000_000
"""Whoever has asked so lately is taken to ask again."""
MAX_BYTES = 16 * 1024 * 1024
"""Of all of it; beyond, the older half is forgotten, and means are over fewer frames: an answer made of
this much takes some 30 ms, in which nothing else is done. 64 ranks of 60 tags have 10 MB at 100
iterations a second."""
_LOOK_NS = 1_000_000_000
_FRAME_BYTES = 300
"""Of a frame beside its values, about."""

_NONE: Mapping[int, Sequence[ValueFrame]] = {}


class RecentFrames:
    """Owned by the aggregator's only thread.

    ``is_kept``: whether somebody asks, so that frames are to be added.
    """

    def __init__(self) -> None:
        self.is_kept = False
        self._asked_mono_ns = 0
        self._looked_mono_ns = 0
        self._frames: dict[int, dict[int, deque[ValueFrame]]] = {}
        self._bytes = 0

    def asked(self, now_ns: int) -> None:
        """Somebody wants to know of the ranks. ``now_ns``: monotonic, as below."""
        self.is_kept = True
        self._asked_mono_ns = now_ns

    def look(self, now_ns: int) -> None:
        """Forget what is in no window, and everything once nobody asks any more; does so once a
        second, however often it is called."""
        if not self.is_kept or now_ns - self._looked_mono_ns < _LOOK_NS:
            return
        self._looked_mono_ns = now_ns
        if now_ns - self._asked_mono_ns > ASKED_NS:
            self.is_kept = False
            self.clear()
            return
        for of_source in self._frames.values():
            oldest_ns = max(frames[-1].mono_ns for frames in of_source.values()) - WINDOW_NS
            for key_set in [k for k, frames in of_source.items() if frames[-1].mono_ns < oldest_ns]:
                self._bytes -= sum(map(_size, of_source.pop(key_set)))

    def add(self, source: int, key_set: int, frame: ValueFrame) -> None:
        """A frame, newer than those of the source before it; of those with its key set only what
        is in its window stays."""
        frames = self._frames.setdefault(source, {}).setdefault(key_set, deque())
        frames.append(frame)
        self._bytes += _size(frame)
        oldest_ns = frame.mono_ns - WINDOW_NS
        while frames[0].mono_ns < oldest_ns:
            self._bytes -= _size(frames.popleft())
        if self._bytes > MAX_BYTES:
            self._halve()

    def of(self, source: int) -> Mapping[int, Sequence[ValueFrame]]:
        """Key sets and their frames, oldest first: never none. Of a key set that came no more they
        may be older than the window of the source's newest frame."""
        return self._frames.get(source, _NONE)

    def clear(self) -> None:
        """Forget everything."""
        self._frames.clear()
        self._bytes = 0

    def _halve(self) -> None:
        for of_source in self._frames.values():
            for frames in of_source.values():
                for _ in range(len(frames) // 2):
                    self._bytes -= _size(frames.popleft())
        if self._bytes > MAX_BYTES:
            self.clear()


def _size(frame: ValueFrame) -> int:
    return len(frame.values) + len(frame.weights) + _FRAME_BYTES
