"""Samples this node once a second, on threads of its own.

Whoever asks gets the newest sample at once, whatever a driver does meanwhile: a sample that is
not renewed ages out, and the thread that hangs is left alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Protocol

from unilab_metrics.aggregate.options import NodeSample

INTERVAL_S = 1.0
MAX_AGE_NS = 5_000_000_000
_RETRY_S = 60.0


class Reader(Protocol):
    """Reads figures by tag; used by one thread."""

    def __call__(self) -> dict[str, float]:
        """May take long, and may raise."""
        ...

    def close(self) -> None:
        """Lets go what it holds."""
        ...


class NodeSampler:
    """A thread per reader, so that one that hangs keeps no other from being read.

    ``newest`` may be called from any thread and never waits.
    """

    def __init__(
        self,
        readers: Iterable[Callable[[], Reader]],
        *,
        interval_s: float = INTERVAL_S,
        nothing: tuple[type[BaseException], ...] = (ImportError,),
    ) -> None:
        """``readers``: make what is read, called on its thread. ``nothing``: what one raises where
        there is nothing to read, now or later; after anything else it is tried again."""
        self._interval_s = interval_s
        self._nothing = nothing
        self._stop = threading.Event()
        self._samples: dict[int, NodeSample] = {}
        self._threads = [
            threading.Thread(
                target=self._run, args=(place, make), name=f"unilab-node-{place}", daemon=True
            )
            for place, make in enumerate(readers)
        ]
        for thread in self._threads:
            thread.start()

    def newest(self, now_mono_ns: int) -> NodeSample:
        """All figures that are not too old; without any, a sample of time 0."""
        samples = list(self._samples.values())
        fresh = [sample for sample in samples if now_mono_ns - sample.mono_ns <= MAX_AGE_NS]
        values = {tag: value for sample in fresh for tag, value in sample.values.items()}
        return NodeSample(max((sample.mono_ns for sample in fresh), default=0), values)

    def close(self, timeout_s: float = 0.5) -> bool:
        """Ends the threads; false if one hangs, which then ends with the process."""
        self._stop.set()
        end = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(end - time.monotonic(), 0.0))
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self, place: int, make: Callable[[], Reader]) -> None:
        while not self._stop.is_set():
            # Nothing that goes wrong here is worth a line in a log: the figures are missing.
            try:
                with closing(make()) as reader:
                    self._read(place, reader)
            except self._nothing:
                return
            except Exception:  # noqa: BLE001
                self._stop.wait(_RETRY_S)

    def _read(self, place: int, reader: Reader) -> None:
        while not self._stop.wait(self._interval_s):
            values = reader()
            self._samples[place] = NodeSample(time.monotonic_ns(), values)
