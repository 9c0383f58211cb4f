"""After a loss of power a backend gets only what the wal accounts for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from case_runs import scalars
from cut_off_run import end, log, newest, open_run_directory, source

from unilab_metrics.aggregate.folding.entries import EntryKind
from unilab_metrics.aggregate.journaling.evidence import DURABLE_FILE
from unilab_metrics.aggregate.journaling.recovery import recover
from unilab_metrics.run.completing.recovering import recover_run
from unilab_metrics.run.verifying.verify import verify_run
from unilab_metrics.storage.records import scan
from unilab_metrics.storage.segments import KIND_SEGMENT_HEADER, list_segments
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_metrics.write.process import make_backend
from unilab_metrics.write.unattended import covered_update
from unilab_metrics.write.writer import run_writer

ITERATIONS = 20


def written(run_dir: Path) -> int:
    """The last update that ``write RUN`` brings into the backend."""
    backend = make_backend("tensorboard", run_dir)
    run_writer(run_dir, backend, stop=lambda: True, log=lambda _: None)
    return backend.update


@pytest.fixture
def run(run_dir: Path) -> Path:
    """A run that has ended, with nothing in its backend."""
    open_run_directory(run_dir, backends=())
    publisher = source()
    log(publisher, range(ITERATIONS))
    end(publisher)
    recover_run(run_dir)
    return run_dir


def lose_half_of_the_wal(run_dir: Path) -> int:
    """As if the history had reached the disk before the wal; what is left covers so many."""
    path = newest(bus_directory(run_dir), "wal")
    data = path.read_bytes()
    kinds = frozenset([KIND_SEGMENT_HEADER, *EntryKind])
    seals = [r for r in scan(data, kinds=kinds).records if r.kind == EntryKind.SEAL]
    os.truncate(path, seals[len(seals) // 2].start)
    # It is never synced. With it, this is damage: see test_journal_evidence.
    (path.parent / DURABLE_FILE).unlink()
    return recover(bus_directory(run_dir)).last_update


def test_what_the_wal_has_lost_is_not_written(run: Path) -> None:
    whole = covered_update(bus_directory(run))
    covered = lose_half_of_the_wal(run)
    assert whole is not None
    assert 0 < covered < whole
    assert written(run) == covered
    # The next aggregator seals the others anew, from the frames that the wal still has.
    recover_run(run)
    assert written(run) == whole
    assert len(scalars(run)["Loss/value"]) == ITERATIONS
    assert verify_run(run).history.ended == "completed"


def test_a_whole_wal_covers_all(run: Path) -> None:
    assert written(run) == covered_update(bus_directory(run)) == ITERATIONS + 2


def test_a_history_without_a_wal_is_written_as_it_is(run: Path) -> None:
    for path in list_segments(bus_directory(run), "wal"):
        path.unlink()
    assert covered_update(bus_directory(run)) is None
    assert written(run) == ITERATIONS + 2
