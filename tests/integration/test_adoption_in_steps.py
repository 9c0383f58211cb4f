"""A long spool of a dead process is read in steps, and what it brought is sealed between them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from cut_off_run import LAUNCH, kill, log, open_run_directory, source

from unilab_metrics.aggregate import closing
from unilab_metrics.aggregate import core as core_module
from unilab_metrics.aggregate.core import Core
from unilab_metrics.aggregate.endurance import Endurance
from unilab_metrics.aggregate.folding import deciding
from unilab_metrics.aggregate.folding.entries import SourceJoined
from unilab_metrics.aggregate.folding.state import Publication
from unilab_metrics.aggregate.journaling.blocks import BlockStore
from unilab_metrics.aggregate.journaling.journal import Journal
from unilab_metrics.aggregate.leaving import adopting
from unilab_metrics.aggregate.leaving.leftovers import SpoolDirectories
from unilab_metrics.aggregate.leaving.liveness import Liveness
from unilab_metrics.aggregate.receiving.peers import Peer
from unilab_metrics.outcome import RunOutcome
from unilab_metrics.publish.publisher import Publisher
from unilab_metrics.storage.filesystem import boot_id
from unilab_metrics.storage.places import spool_root
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_schema.updates import Update

ITERATIONS = 60
LONG_NS = 3_600_000_000_000


class Rooms:
    """An aggregator without its loop and its sockets."""

    def __init__(self, run_dir: Path, step_ns: int) -> None:
        bus_dir = bus_directory(run_dir)
        self.journal = Journal(bus_dir)
        self.blocks = BlockStore(bus_dir, self.journal)
        self.core = Core(self.journal, self.blocks, 30.0)
        self.updates: list[Update] = []
        self.most_open = 0
        self.core.heed = self._heed
        self.liveness = Liveness(
            self.core,
            boot_id=boot_id(),
            spools=SpoolDirectories([spool_root() / LAUNCH]),
            lost_after_s=60.0,
            peer=lambda _: Peer(),
            step_ns=step_ns,
        )

    def _heed(self, published: list[Publication]) -> None:
        self.most_open = max(self.most_open, len(self.core.state.data.windows.open))
        self.updates += [one.entry for one in published if isinstance(one.entry, Update)]

    def know(self, publisher: Publisher) -> None:
        """As after its Hello."""
        self.core.fold(SourceJoined(len(self.core.state.data.sources), publisher.identity))

    def turn(self) -> None:
        """What the aggregator's loop does of it."""
        self.liveness.check()
        if not self.liveness.holds_seals():
            self.core.seal_due(frozenset)

    def adopt_all(self) -> int:
        """Turns until all is there; in how many of them something was left."""
        for steps in range(1000):
            self.turn()
            if not self.liveness.is_unfinished and not self.core.has_due:
                return steps
        pytest.fail("it never ends")

    def close(self) -> None:
        self.liveness.close()
        self.blocks.close()
        self.journal.close()


@pytest.fixture
def rooms(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rooms]:
    # So small that sixty iterations are many.
    monkeypatch.setattr(adopting, "_READ_BYTES", 256)
    monkeypatch.setattr(adopting, "MAX_AHEAD", 8)
    monkeypatch.setattr(deciding, "MAX_OPEN_WINDOWS", 16)
    made = Rooms(open_run_directory(run_dir), LONG_NS)
    yield made
    made.close()


def test_dead_ranks_are_read_side_by_side_and_their_iterations_are_whole(rooms: Rooms) -> None:
    publishers = [source(rank, learners=2) for rank in range(2)]
    for publisher in publishers:
        rooms.know(publisher)
        log(publisher, range(ITERATIONS))
        kill(publisher)
    assert rooms.adopt_all() > 5
    assert [(u.iteration, u.ranks_reported) for u in rooms.updates] == [
        (iteration, 2) for iteration in range(ITERATIONS)
    ]
    # So many at a time, whatever they have left, are in memory.
    assert rooms.most_open < ITERATIONS // 2
    assert all(s.status == "lost" for s in rooms.core.state.data.sources)


def test_a_step_ends_in_time_and_the_next_one_goes_on(rooms: Rooms) -> None:
    rooms.liveness._step_ns = 1  # pyright: ignore[reportPrivateUsage]
    publisher = source()
    rooms.know(publisher)
    log(publisher, range(ITERATIONS))
    kill(publisher)
    rooms.turn()
    assert rooms.liveness.is_unfinished
    assert 0 < len(rooms.updates) < 20
    assert rooms.core.state.data.sources[0].status == "live"
    assert rooms.adopt_all() > 5
    assert [u.iteration for u in rooms.updates] == list(range(ITERATIONS))
    assert rooms.core.state.data.sources[0].status == "lost"


def test_a_dead_collector_is_read_before_what_its_learner_left_is_sealed(rooms: Rooms) -> None:
    learner, collector = source(), source(role="collector")
    rooms.know(learner)
    rooms.know(collector)
    collector.log({"Rollout/r": 7.0})
    log(learner, range(ITERATIONS))
    kill(learner)
    kill(collector)
    rooms.liveness._step_ns = 1  # pyright: ignore[reportPrivateUsage]
    rooms.liveness.check()
    first, second = rooms.core.state.data.sources
    assert first.status == "live"
    assert first.cursor < ITERATIONS
    assert second.status == "lost"
    assert second.cursor > 0


def test_nothing_is_sealed_while_an_unknown_spool_waits_behind_one_that_is_read(
    rooms: Rooms,
) -> None:
    known, unknown = source(0, learners=2), source(1, learners=2)
    rooms.know(known)
    for publisher in (known, unknown):
        log(publisher, range(ITERATIONS))
        kill(publisher)
    rooms.liveness._step_ns = 1  # pyright: ignore[reportPrivateUsage]
    rooms.liveness.check()
    assert rooms.liveness.is_unfinished
    assert rooms.liveness.holds_seals()
    rooms.liveness._step_ns = LONG_NS  # pyright: ignore[reportPrivateUsage]
    rooms.adopt_all()
    assert not rooms.liveness.holds_seals()
    assert [(u.iteration, u.ranks_reported) for u in rooms.updates] == [
        (iteration, 2) for iteration in range(ITERATIONS)
    ]


def test_the_loop_seals_for_a_while_only(rooms: Rooms, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_module, "SEALING_NS", -1)
    publisher = source()
    rooms.know(publisher)
    log(publisher, range(ITERATIONS))
    kill(publisher)
    rooms.turn()
    assert rooms.core.has_due
    assert [u.iteration for u in rooms.updates] == [0]
    rooms.adopt_all()
    assert [u.iteration for u in rooms.updates] == list(range(ITERATIONS))


def test_the_summary_is_written_early_when_sealing_takes_long(
    rooms: Rooms, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_module, "SEALING_NS", -1)
    monkeypatch.setattr(closing, "_TELL_EARLY_NS", -1)
    told: list[RunOutcome] = []
    nobody = SimpleNamespace(peers={}, troubles=lambda _: (), updates=dict)
    ending = closing.Closing(
        rooms.core,
        run_dir=run_dir,
        drain_s=0.0,
        ingest=cast("Any", nobody),
        liveness=rooms.liveness,
        announcer=cast("Any", nobody),
        writers=cast("Any", nobody),
        endurance=Endurance(),
        unheard=list,
        turn=rooms.turn,
        write_summary=told.append,
    )
    publisher = source()
    rooms.know(publisher)
    log(publisher, range(ITERATIONS))
    assert not ending.is_put_off()
    kill(publisher)
    rooms.turn()
    for _ in range(3):
        rooms.turn()
        assert ending.is_put_off()
    assert [(one.status, one.iterations) for one in told] == [("failed", 1)]
    rooms.adopt_all()
    assert not ending.is_put_off()
