"""Spools of processes that died unheard are taken in before anybody takes their places."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from cut_off_run import LAUNCH, end, kill, log, open_run_directory, source

from unilab_metrics.aggregate.aggregator import run_aggregator
from unilab_metrics.aggregate.core import Core
from unilab_metrics.aggregate.journaling.blocks import BlockStore
from unilab_metrics.aggregate.journaling.journal import Journal
from unilab_metrics.aggregate.leaving.leftovers import SpoolDirectories
from unilab_metrics.aggregate.leaving.liveness import Liveness
from unilab_metrics.aggregate.options import Options
from unilab_metrics.aggregate.receiving.ingest import Ingest
from unilab_metrics.aggregate.receiving.peers import Peer
from unilab_metrics.errors import ExitCode
from unilab_metrics.outcome import RunOutcome
from unilab_metrics.publish.publisher import Publisher
from unilab_metrics.run.completing.recovering import recover_run
from unilab_metrics.storage.filesystem import boot_id
from unilab_metrics.storage.places import spool_root
from unilab_metrics.subscribe.history import HistoryReader
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_schema.codec import encode_message
from unilab_schema.control import Hello
from unilab_schema.updates import Update


class Nobody:
    """In place of a socket: sends nothing."""

    def send_multipart(self, parts: list[bytes], flags: int) -> None:
        del parts, flags


class Receiving:
    """The aggregator's rooms for sources, without its loop."""

    def __init__(self, run_dir: Path) -> None:
        bus_dir = bus_directory(run_dir)
        self.journal = Journal(bus_dir)
        self.blocks = BlockStore(bus_dir, self.journal)
        self.core = Core(self.journal, self.blocks, 30.0)
        self.liveness = Liveness(
            self.core,
            boot_id=boot_id(),
            spools=SpoolDirectories([spool_root() / LAUNCH]),
            lost_after_s=60.0,
            peer=lambda _: Peer(),
        )
        self.ingest = Ingest(
            self.core,
            Nobody(),  # type: ignore[arg-type]
            is_dead=self.liveness.is_dead,
            vacate=self.liveness.vacate,
            adopt_orphans=self.liveness.adopt_orphans,
        )

    def hear(self, publisher: Publisher) -> None:
        """Its Hello."""
        hello = Hello(publisher.identity, 1, 0, 0, 0)
        self.ingest._take([b"peer", encode_message(hello)], "")

    def places(self) -> list[tuple[int, int, int]]:
        """Attempt, rank and cursor of each source."""
        return [(s.joined, s.rank, s.cursor) for s in self.core.state.data.sources]

    def close(self) -> None:
        self.liveness.close()
        self.blocks.close()
        self.journal.close()


@pytest.fixture
def receiving(run_dir: Path) -> Iterator[Receiving]:
    rooms = Receiving(open_run_directory(run_dir))
    yield rooms
    rooms.close()


def test_who_died_unheard_comes_before_the_one_who_takes_its_place(receiving: Receiving) -> None:
    dead = source()
    log(dead, range(3))
    kill(dead)
    again = source()
    receiving.hear(again)
    # A layout and three iterations.
    assert receiving.places() == [(1, 0, 4), (2, 0, 0)]
    end(again)


def test_a_known_process_that_says_hello_again_asks_for_nothing(receiving: Receiving) -> None:
    zero = source(learners=2)
    receiving.hear(zero)
    dead = source(1)
    log(dead, range(3))
    kill(dead)
    receiving.hear(zero)
    assert receiving.places() == [(1, 0, 0)]
    receiving.hear(source_of_rank_2 := source(2))
    assert receiving.places() == [(1, 0, 0), (1, 1, 4), (1, 2, 0)]
    end(zero)
    end(source_of_rank_2)


def test_an_aggregator_takes_them_in_before_it_ends_for_want_of_sources(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    open_run_directory(run_dir)
    dead = source()
    log(dead, range(3))
    kill(dead)
    outcomes: list[RunOutcome] = []
    options = Options(spool_directories=[spool_root() / LAUNCH], start_grace_s=0.0, launch=LAUNCH)
    assert run_aggregator(run_dir, options, write_summary=outcomes.append) == ExitCode.OK
    assert (outcomes[-1].status, outcomes[-1].iterations) == ("failed", 2)
    assert updates(run_dir) == [(1, n, 1, 1, n / 3) for n in range(3)]


def test_attempts_that_never_met_an_aggregator_are_told_apart(run_dir: Path) -> None:
    open_run_directory(run_dir)
    for attempt in range(3):
        # Ranks of one attempt are started in any order.
        ranks = (0, 1) if attempt == 0 else (1, 0)
        publishers = {rank: source(rank, learners=2) for rank in ranks}
        for iteration in range(2):
            for rank, publisher in publishers.items():
                publisher.log({"a": 10.0 * attempt + 2 * rank}, iteration=iteration)
        for publisher in publishers.values():
            kill(publisher)
    assert recover_run(run_dir).is_complete
    assert updates(run_dir) == [
        (attempt + 1, n, 2, 2, 10.0 * attempt + 1) for attempt in range(3) for n in range(2)
    ]


def test_a_live_aggregator_tells_them_apart_too(receiving: Receiving) -> None:
    for _ in range(2):
        publishers = [source(rank, learners=2) for rank in (1, 0)]
        for publisher in publishers:
            log(publisher, range(2))
            kill(publisher)
    receiving.liveness.check()
    assert sorted(receiving.places()) == [(1, 0, 3), (1, 1, 3), (2, 0, 3), (2, 1, 3)]


def test_a_rank_that_began_after_the_goodbye_waits_for_recover(run_dir: Path) -> None:
    rooms = Receiving(open_run_directory(run_dir))
    zero = source(learners=2)
    log(zero, range(3))
    end(zero)
    rooms.liveness.check()
    late = source(1, learners=2)
    log(late, range(5))
    end(late)
    # Perhaps of another attempt that is on its way up.
    rooms.liveness.check()
    assert rooms.places() == [(1, 0, 5)]
    rooms.close()
    recover_run(run_dir)
    assert [(u[0], u[1]) for u in updates(run_dir)] == [(1, n) for n in range(5)]


def updates(run_dir: Path) -> list[tuple[int, int, int, int, float]]:
    with HistoryReader(bus_directory(run_dir)) as reader:
        return [
            (
                record.entry.attempt,
                record.entry.iteration,
                record.entry.ranks_reported,
                record.entry.ranks_expected,
                record.values().tolist()[0],
            )
            for record in reader.poll(1000)
            if isinstance(record.entry, Update)
        ]
