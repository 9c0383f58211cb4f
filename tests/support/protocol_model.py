"""A whole run in one process, driven by a seed: sources, aggregator, writer, disk and faults.

No sockets, no sleeping, no clock. After the random part everything is let run until nothing
is under way; then the promises are checked: see :mod:`protocol_model_promises`.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from protocol_model_aggregator import ModelAggregator, Told
from protocol_model_disk import Crash, Disk, modelled
from protocol_model_promises import check_promises, check_told
from protocol_model_source import Link, ModelSource
from protocol_model_writer import ModelWriter

from unilab_metrics.aggregate.folding.state import AggregatorState
from unilab_metrics.aggregate.leaving.launch_order import in_launch_order
from unilab_metrics.aggregate.leaving.leftovers import Orphan
from unilab_metrics.errors import StorageFullError

MS = 1_000_000
PLACES = ((0, "learner"), (1, "learner"), (0, "collector"))
ALL_FAULTS = (
    "connection", "stale", "source", "power", "damage", "full", "writer", "goodbye", "hidden",
)  # fmt: skip
SETTLE_TURNS = 600


class NotSettledError(AssertionError):
    """Something waits for ever."""


class World:
    """One schedule. ``run`` plays it and checks the promises."""

    source_class = ModelSource
    aggregator_class = ModelAggregator
    writer_class = ModelWriter

    def __init__(self, root: Path, seed: int, steps: int = 40) -> None:
        self.rng = rng = Random(seed)
        self.disk = Disk(root, rng)
        self.now = 1_000 * MS
        self.steps = steps
        self.sources: list[ModelSource] = []
        self._is_fresh_boot = False
        """Whether the node has lost its power and no aggregator has mended the journal since."""
        self.told: dict[bytes, Told] = {}
        self.aggregator: ModelAggregator | None = None
        self.writer = self.writer_class(self.disk)
        self.learners = rng.choice((1, 2))
        self.places = PLACES if self.learners == 2 else (PLACES[0], PLACES[2])
        self._by_incarnation: dict[bytes, ModelSource] = {}
        # Each schedule has faults of its own: some none, some many of one kind.
        self._crash_chance = rng.choice((0.0, 0.0, 0.01, 0.05))
        self._duplicate_chance = rng.choice((0.0, 0.0, 0.2))
        self._faults = rng.sample(ALL_FAULTS, rng.randint(0, len(ALL_FAULTS)))

    # --- what the aggregator sees ----------------------------------------------------------

    def links(self) -> list[Link]:
        return [link for source in self.sources for link in (*source.old_links, source.link)]

    def duplicates(self, rng: Random) -> bool:
        return rng.random() < self._duplicate_chance

    def source(self, incarnation: bytes) -> ModelSource:
        return self._by_incarnation[incarnation]

    def orphans(self, state: AggregatorState) -> list[ModelSource]:
        """Dead ones that it does not know, in the order in which they are taken in."""
        dead = [
            Orphan(Path(str(s.number)), s.identity)
            for s in self.sources
            if not s.is_alive
            and not s.is_hidden
            and state.source_of(s.identity.incarnation) is None
        ]
        return [self.source(orphan.identity.incarnation) for orphan in in_launch_order(dead)]

    # --- playing ---------------------------------------------------------------------------

    def run(self, patch: pytest.MonkeyPatch) -> None:
        with modelled(self.disk, patch):
            try:
                for _ in range(self.steps):
                    self._step()
                self._settle()
                check_promises(self.sources, self.aggregator, self.writer, self.disk.root)
            finally:
                self.writer.stop()

    def _step(self) -> None:
        rng = self.rng
        self.now += rng.choice((1, 5, 20, 100, 700, 3_000, 12_000)) * MS
        self._log()
        for source in self._living():
            if rng.random() < 0.7:
                source.ship(self.now)
        if self.aggregator is None and rng.random() < 0.5:
            self._start_aggregator()
        if rng.random() < 0.8:
            self._turn()
        if rng.random() < 0.5:
            self._write()
        if self._faults and rng.random() < 0.35:
            self._fault(rng.choice(self._faults))

    def _log(self) -> None:
        rng = self.rng
        rank, role = rng.choice(self.places)
        alive = [s for s in self._living() if s.identity.key.rank == rank
                 and s.identity.key.role == role and not s.has_end]  # fmt: skip
        source = alive[0] if alive else self._start_source(rank, role)
        for _ in range(rng.randint(0, 5)):
            if source.is_learner and rng.random() < 0.8:
                source.log_iteration(self.now)
            else:
                source.log_event(self.now)

    def _living(self) -> list[ModelSource]:
        return [s for s in self.sources if s.is_alive]

    def _start_source(self, rank: int, role: str) -> ModelSource:
        number = len(self.sources) + 1
        source = self.source_class(number, rank, role, self.learners, self.now)
        self.sources.append(source)
        self._by_incarnation[source.identity.incarnation] = source
        return source

    def _start_aggregator(self) -> None:
        try:
            self.disk.crash_chance = self._crash_chance
            self.aggregator = self.aggregator_class(self, self.disk)
        except (Crash, StorageFullError):
            self._kill_aggregator()
        else:
            self._is_fresh_boot = False
            check_told(self.told, self.aggregator.state)
        finally:
            self.disk.crash_chance = 0.0

    def _turn(self) -> None:
        if self.aggregator is None:
            return
        self.disk.crash_chance = self._crash_chance
        try:
            self.aggregator.turn(self.rng)
        except Crash:
            self._kill_aggregator()
        finally:
            self.disk.crash_chance = 0.0

    def _kill_aggregator(self) -> None:
        self.aggregator = None
        self.disk.close_all()
        for link in self.links():
            # In its socket; what it has sent itself may still arrive.
            link.up.clear()
        for source in self._living():
            # ZeroMQ mends the connection by itself, or the shipper has made a new socket.
            if self.rng.random() < 0.5:
                source.connect(self.now)

    def _write(self) -> None:
        durable = None if self.aggregator is None else self.aggregator.durable_update
        if durable is None and (self._is_fresh_boot or self.rng.random() < 0.7):
            return
        self.writer.turn(self.rng, durable)

    # --- faults ----------------------------------------------------------------------------

    def _fault(self, kind: str) -> None:
        rng = self.rng
        living = self._living()
        if kind == "connection" and living:
            source = rng.choice(living)
            if rng.random() < 0.5:
                source.link.up.clear()
                source.link.down.clear()
            source.connect(self.now)
        elif kind == "stale" and living:
            source = rng.choice(living)
            late = [link for link in source.old_links if link.down]
            if late:
                source.receive(rng.choice(late).down.pop(), self.now)
        elif kind == "source" and living:
            rng.choice(living).crash(rng)
        elif kind == "goodbye" and living:
            # Perhaps with frames that nobody has taken.
            source = rng.choice(living)
            source.end(self.now)
            if rng.random() < 0.5:
                source.crash(rng)
        elif kind == "hidden":
            # Where dead ones left their frames cannot be seen for a while, or again.
            for source in self.sources:
                source.is_hidden = not source.is_alive and rng.random() < 0.5
        elif kind == "power":
            self._kill_aggregator()
            self.disk.lose_power()
            self._is_fresh_boot = True
            self.writer.lose_power(rng)
            # What was only journaled may be gone: the spools hold it.
            self.told = {k: Told(t.durable, t.durable) for k, t in self.told.items() if t.durable}
        elif kind == "damage" and self.sources:
            source = rng.choice(self.sources)
            if source.held:
                source.damage(rng.choice(source.held), rng)
        elif kind == "full":
            self.disk.is_full = not self.disk.is_full
        elif kind == "writer":
            self.writer.crash(rng)

    # --- letting things settle ---------------------------------------------------------------

    def _settle(self) -> None:
        self._crash_chance = self._duplicate_chance = 0.0
        self.disk.is_full = False
        for source in self.sources:
            if source.has_end and source.is_alive:
                # Its close() does not wait for ever, and its place may be another one's.
                source.crash(self.rng)
            source.is_hidden = not source.is_alive and self.rng.random() < 0.5
        for _ in range(3):
            self._finish_attempt()
            assert self.aggregator is not None
            # What nobody could see comes after the end.
            for source in self.sources:
                source.is_hidden = False
            self._until(lambda: self._is_complete() and self._is_taken_in())
            if not self.orphans(self.aggregator.state):
                return
        raise NotSettledError("three more attempts did not take in what was left behind")

    def _finish_attempt(self) -> None:
        # What a dead process left may be held until rank 0 has been started again.
        if not any(self._is_open_zero(source) for source in self._living()):
            self._start_source(0, "learner").log_iteration(self.now)
        self._until(
            lambda: all(s.delivery.greeted and s.delivery.durable == s.last for s in self._living())
        )
        for source in self._living():
            source.end(self.now)
        self._until(self._is_complete)
        for source in self._living():
            source.crash(self.rng)

    @staticmethod
    def _is_open_zero(source: ModelSource) -> bool:
        return source.is_learner and not source.identity.key.rank and not source.has_end

    def _is_complete(self) -> bool:
        return (
            all(s.delivery.durable == s.last for s in self._living())
            and self.aggregator is not None
            and self.aggregator.is_idle
            and self.writer.cursor == self.aggregator.journal.committed_update
        )

    def _is_taken_in(self) -> bool:
        """Whether the aggregator has all of everybody that it knows."""
        assert self.aggregator is not None
        state = self.aggregator.state
        known = ((s, state.source_of(s.identity.incarnation)) for s in self.sources)
        return all(found is None or found.cursor >= s.last for s, found in known)

    def _until(self, condition: object) -> None:
        assert callable(condition)
        for _ in range(SETTLE_TURNS):
            if condition():
                return
            self.now += 200 * MS
            if self.aggregator is None:
                self._start_aggregator()
            for source in self._living():
                source.ship(self.now)
            self._turn()
            self._write()
        raise NotSettledError(f"after {SETTLE_TURNS} turns something still waits")
