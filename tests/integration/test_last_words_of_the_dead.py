"""What a killed process has sent may be read after its death is known: it does not come back."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from cut_off_run import end, open_run_directory, source

from unilab_metrics.aggregate.core import Core
from unilab_metrics.aggregate.folding.entries import SourceGone
from unilab_metrics.aggregate.journaling.blocks import BlockStore
from unilab_metrics.aggregate.journaling.journal import Journal
from unilab_metrics.aggregate.receiving.ingest import Ingest
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_schema.codec import encode_message
from unilab_schema.control import Batch, Hello
from unilab_schema.identity import Identity


class Nobody:
    """In place of a socket: sends nothing."""

    def send_multipart(self, parts: list[bytes], flags: int) -> None:
        del parts, flags


class Sources:
    """What the aggregator thinks of one, without its loop."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._ingest = Ingest(
            core,
            Nobody(),  # type: ignore[arg-type]
            is_dead=lambda _: False,
            vacate=lambda _: None,
        )

    def hear(self, message: Hello | Batch) -> None:
        self._ingest._take([b"peer", encode_message(message)], "")

    def lose(self) -> None:
        self._core.fold(SourceGone(0, "lost", time.time_ns(), time.monotonic_ns(), "gone"))

    @property
    def status(self) -> str:
        (found,) = self._core.state.data.sources
        return found.status


@pytest.fixture
def sources(run_dir: Path) -> Iterator[Sources]:
    journal = Journal(bus_directory(open_run_directory(run_dir)))
    blocks = BlockStore(bus_directory(run_dir), journal)
    yield Sources(Core(journal, blocks, 30.0))
    blocks.close()
    journal.close()


def identity_of(pid: int) -> Identity:
    """Of a publisher in that process."""
    publisher = source()
    end(publisher)
    return msgspec.structs.replace(publisher.identity, pid=pid)


def ping(identity: Identity) -> Batch:
    now = time.monotonic_ns()
    return Batch(identity.incarnation, now, now, time.time_ns(), b"")


def test_a_message_of_a_killed_process_is_no_sign_of_life(sources: Sources) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        identity = identity_of(process.pid)
        sources.hear(Hello(identity, 1, 0, time.monotonic_ns(), time.time_ns()))
        sources.hear(ping(identity))
        process.kill()
    assert sources.status == "live"
    sources.lose()
    sources.hear(ping(identity))
    assert sources.status == "lost"


def test_a_process_that_was_taken_for_lost_comes_back(sources: Sources) -> None:
    identity = identity_of(os.getppid())
    sources.hear(Hello(identity, 1, 0, time.monotonic_ns(), time.time_ns()))
    sources.lose()
    sources.hear(ping(identity))
    assert sources.status == "live"
