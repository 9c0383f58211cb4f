"""The bounded ring that carries transitions from a collector to its learner's replay.

One writer, one reader, ``depth`` slots of ``slot_rows`` rows. The sequences only rise:
``published`` counts the slots that the writer has filled, ``released`` those that the reader
has taken; a slot belongs to the reader between the two. A full ring makes the writer wait,
and what it waited is measured where it happened.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import SpawnContext
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unilab_metrics.demo.shared import Listener, PeerLostError, Ringer, SharedArrays, create_bell
from unilab_metrics.demo.slow import wait

Array = NDArray[np.float32]


class StoppedError(Exception):
    """The learner has asked its collector to stop."""


class IngressGauges(NamedTuple):
    """The state of a ring; counters are cumulative over the run.

    ``occupancy``: slots published and not yet released. ``dropped_batches``: batches of rows
    that the writer gave up because the learner stopped.
    """

    depth: int
    published: int
    released: int
    occupancy: int
    high_water: int
    backpressure_waits: int
    backpressure_wait_ms: float
    dropped_batches: int


class IngressRing:
    """The shared memory of a ring: counters of one writer each, and the slots."""

    def __init__(self, context: SpawnContext, depth: int, slot_rows: int, width: int) -> None:
        self.depth = depth
        self.slot_rows = slot_rows
        counter = ((1,), np.int64)
        self._arrays = SharedArrays(
            context,
            {
                "published": counter,
                "released": counter,
                "stopped": counter,
                "high_water": counter,
                "waits": counter,
                "wait_ns": counter,
                "dropped": counter,
                "slots": ((depth, slot_rows, width), np.float32),
            },
        )

    def get(self, counter: str) -> int:
        """The present value of a counter."""
        return int(self._arrays[counter][0])

    def set(self, counter: str, value: int) -> None:
        """Only the counter's one writer may call this."""
        self._arrays[counter][0] = value

    def slot(self, sequence: int) -> Array:
        """The rows of the slot that carries the ``sequence``-th publication (from 0)."""
        return self._arrays["slots"][sequence % self.depth]

    def gauges(self) -> IngressGauges:
        """A view of the counters; never a negative occupancy, whoever moves meanwhile."""
        released = self.get("released")
        published = self.get("published")
        return IngressGauges(
            depth=self.depth,
            published=published,
            released=released,
            occupancy=published - released,
            high_water=self.get("high_water"),
            backpressure_waits=self.get("waits"),
            backpressure_wait_ms=self.get("wait_ns") / 1e6,
            dropped_batches=self.get("dropped"),
        )


@dataclass
class IngressWriter:
    """The collector's end; owned by its main thread."""

    ring: IngressRing
    published: Ringer
    released: Listener
    wait_s: float = 0.0
    """By how much writing rows is slower than it could be."""
    filled_rows: int = 0

    def reserve(self, timeout_s: float) -> bool:
        """Waits until the next rows have a slot; false when ``timeout_s`` passed without one.

        Raises :class:`StoppedError`, or :class:`PeerLostError` when the learner is gone.
        """
        if self.filled_rows or self._has_room():
            return True
        started = time.perf_counter_ns()
        try:
            self.released.wait_for(self._may_go_on, timeout_s)
        finally:
            waited = time.perf_counter_ns() - started
            self.ring.set("wait_ns", self.ring.get("wait_ns") + waited)
            self.ring.set("waits", self.ring.get("waits") + 1)
        if self._has_room():
            return True
        if self.ring.get("stopped"):
            self.ring.set("dropped", self.ring.get("dropped") + 1)
            raise StoppedError
        return False

    def write(self, rows: Array) -> None:
        """Copies rows into the reserved slot and publishes the slot when it is full.

        Raises :class:`PeerLostError` when the learner is gone.
        """
        ring = self.ring
        sequence = ring.get("published")
        end = self.filled_rows + len(rows)
        ring.slot(sequence)[self.filled_rows : end] = rows
        wait(self.wait_s)
        self.filled_rows = end
        if end < ring.slot_rows:
            return
        self.filled_rows = 0
        ring.set("published", sequence + 1)
        occupancy = sequence + 1 - ring.get("released")
        ring.set("high_water", max(ring.get("high_water"), occupancy))
        self.published.ring()

    def _may_go_on(self) -> bool:
        return self._has_room() or self.ring.get("stopped") > 0

    def _has_room(self) -> bool:
        return self.ring.get("published") - self.ring.get("released") < self.ring.depth


@dataclass
class IngressReader:
    """The learner's end. One thread takes slots; any thread may read the gauges."""

    ring: IngressRing
    published: Listener
    released: Ringer

    def take(self, consume: Callable[[Array], None]) -> int:
        """Hands every published slot to ``consume``, releases it, and returns how many."""
        taken = 0
        while (sequence := self.ring.get("released")) < self.ring.get("published"):
            consume(self.ring.slot(sequence))
            self.ring.set("released", sequence + 1)
            with contextlib.suppress(PeerLostError):  # the listening side reports its death
                self.released.ring()
            taken += 1
        return taken

    def stop(self) -> None:
        """Ends a writer's wait for room; what it holds then is counted as dropped."""
        self.ring.set("stopped", 1)
        with contextlib.suppress(PeerLostError):
            self.released.ring()

    def env_steps(self) -> int:
        """Rows published so far: the rank's environment steps."""
        return self.ring.get("published") * self.ring.slot_rows


def create_ingress(
    context: SpawnContext, *, depth: int, slot_rows: int, width: int
) -> tuple[IngressWriter, IngressReader]:
    """Both ends of a new ring of rows of ``width`` float32 values."""
    ring = IngressRing(context, depth, slot_rows, width)
    published_ringer, published_listener = create_bell(context)
    released_ringer, released_listener = create_bell(context)
    return (
        IngressWriter(ring, published_ringer, released_listener),
        IngressReader(ring, published_listener, released_ringer),
    )
