"""One half of the journal is damaged after the run was safe: nothing that the other half, or a
backend, has is lost, told again or numbered anew; neither by ``recover`` nor by the next attempt."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from cut_off_run import end, kill, log, newest, open_run_directory, source, whole_run

from unilab_metrics.aggregate.journaling.evidence import DURABLE_FILE
from unilab_metrics.aggregate.leaving.leftovers import SpoolDirectories
from unilab_metrics.aggregate.offline import OfflineJournal
from unilab_metrics.cli.root import commands
from unilab_metrics.config import RUN_SUMMARY_FILE
from unilab_metrics.run.completing.recovering import recover_run
from unilab_metrics.run.completing.recovery import Recovery
from unilab_metrics.run.verifying.event_points import Point, held_position, marked_points
from unilab_metrics.run.verifying.verify import verify_run
from unilab_metrics.storage.segments import read_segment_header
from unilab_metrics.subscribe.abandoned import find_abandoned
from unilab_metrics.subscribe.history import HistoryReader
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_metrics.write.backends.event_files import own_files
from unilab_metrics.write.backends.tensorboard import TensorBoardBackend
from unilab_schema.updates import (
    AttemptOpened,
    BlobUpdate,
    EventUpdate,
    HistoryEntry,
    RunEnded,
    Supplement,
    Update,
)

ITERATIONS = 20


def _flipped(at: Callable[[int], int]) -> Callable[[Path], None]:
    def flip(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[at(len(data))] ^= 0x41
        path.write_bytes(data)

    return flip


def _made_noise(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


DAMAGES: dict[str, Callable[[Path], None]] = {
    "removed": Path.unlink,
    "emptied": lambda path: os.truncate(path, 0),
    "half": lambda path: os.truncate(path, path.stat().st_size // 2),
    "noise": _made_noise,
    "one byte off": lambda path: os.truncate(path, path.stat().st_size - 1),
    "first byte": _flipped(lambda _: 0),
    "middle": _flipped(lambda size: size // 2),
    "last byte": _flipped(lambda size: size - 1),
}
every_damage = pytest.mark.parametrize("how", DAMAGES)
each_half = pytest.mark.parametrize("half", ["wal", "history"])


def entries(run_dir: Path) -> list[tuple[int, HistoryEntry, tuple[str, ...]]]:
    with HistoryReader(bus_directory(run_dir)) as reader:
        found = [(r.sequence, r.entry, r.tags) for r in reader.poll(1_000_000)]
        assert (reader.damaged, reader.lost_entries) == (0, 0)
    return found


def points(run_dir: Path) -> list[Point]:
    position = held_position(run_dir).position
    assert position is not None
    return list(marked_points(run_dir, position))


def figures(run_dir: Path) -> object:
    summary = json.loads((run_dir / RUN_SUMMARY_FILE).read_text())
    return [summary[k] for k in ("status", "completed_iterations")], summary["bus"]["sources"]


def said(command: str, run_dir: Path) -> str:
    done = CliRunner().invoke(commands, [command, str(run_dir)])
    assert isinstance(done.exception, SystemExit | None), done.exc_info
    return done.output


@pytest.fixture
def whole(run_dir: Path) -> Path:
    whole_run(run_dir, ITERATIONS)
    return run_dir


def next_attempt(run_dir: Path) -> Recovery:
    open_run_directory(run_dir)
    publisher = source()
    log(publisher, range(ITERATIONS, 2 * ITERATIONS))
    end(publisher)
    return recover_run(run_dir)


@each_half
@every_damage
def test_recover_keeps_what_either_half_has(half: str, how: str, whole: Path) -> None:
    before = entries(whole), points(whole), figures(whole)
    DAMAGES[how](newest(bus_directory(whole), half))
    doctor = said("doctor", whole)
    assert "unilab-metrics recover " in doctor, doctor
    told = said("recover", whole)
    assert "nothing to do" not in told, told
    assert (entries(whole), points(whole), figures(whole)) == before, told
    assert verify_run(whole).history.ended == "completed"
    assert "nothing to do" in said("recover", whole)
    assert (entries(whole), points(whole), figures(whole)) == before


@each_half
@every_damage
def test_the_next_attempt_goes_on_behind_it(half: str, how: str, whole: Path) -> None:
    before, written = entries(whole), points(whole)
    DAMAGES[how](newest(bus_directory(whole), half))
    next_attempt(whole)
    after = entries(whole)
    assert after[: len(before)] == before
    assert [sequence for sequence, _, _ in after] == list(range(1, len(after) + 1))
    updates = [entry for _, entry, _ in after if isinstance(entry, Update)]
    assert [(e.attempt, e.iteration) for e in updates] == [
        (1 + k // ITERATIONS, k) for k in range(2 * ITERATIONS)
    ]
    assert sum(isinstance(entry, AttemptOpened) for _, entry, _ in after) == 2
    assert points(whole)[: len(written)] == written
    assert len([p for p in points(whole) if p.tag == "Loss/value"]) == 2 * ITERATIONS
    assert verify_run(whole).history.ended == "completed"


def test_a_backend_that_has_passed_over_a_hole_gets_what_it_lacks(whole: Path) -> None:
    before = points(whole)
    DAMAGES["middle"](newest(bus_directory(whole), "history"))
    for path in own_files(whole):
        path.unlink()
    backend = TensorBoardBackend(whole)
    with HistoryReader(bus_directory(whole), backend.open(journal_of(whole))) as reader:
        for record in reader.poll(1_000_000):
            backend.write([record])
            backend.flush()
    backend.close()
    assert 0 < len(points(whole)) < len(before)
    recover_run(whole)
    assert points(whole) == before
    assert verify_run(whole).history.ended == "completed"


def journal_of(run_dir: Path) -> str:
    header = read_segment_header(newest(bus_directory(run_dir), "wal"))
    assert header is not None
    return header.epoch.journal.hex()


@pytest.mark.parametrize(
    ("how", "knows"), [("removed", "all"), ("half", "all"), ("removed", "nothing")]
)
def test_what_a_source_sends_again_is_told_and_sealed_once(
    how: str, knows: str, run_dir: Path
) -> None:
    open_run_directory(run_dir)
    publisher = source()
    publisher.start_training()
    log(publisher, range(ITERATIONS))
    publisher.text("note", "once", step=3)
    publisher.event("warning", "hot")
    kill(publisher)
    spool = Path(publisher.identity.spool_path)
    shutil.copytree(spool, run_dir / "copy")
    journal = OfflineJournal(bus_directory(run_dir), SpoolDirectories([spool.parent]))
    # As of an aggregator that dies before all of it is sealed.
    journal._liveness.adopt_orphans()
    for _ in range(ITERATIONS // 2):
        decision = journal._core.decider.flush(0, 0)
        assert decision is not None
        journal._core.fold(decision)
    journal.make_durable(10.0)
    journal.close()
    before = [e for e in entries(run_dir) if not isinstance(e[1], RunEnded)]
    if not spool.exists():
        shutil.copytree(run_dir / "copy", spool)
    DAMAGES[how](newest(bus_directory(run_dir), "wal"))
    if knows == "nothing":
        (bus_directory(run_dir) / DURABLE_FILE).unlink()
    recover_run(run_dir)
    after = entries(run_dir)
    assert after[: len(before)] == before
    updates = [entry.iteration for _, entry, _ in after if isinstance(entry, Update)]
    assert updates == list(range(ITERATIONS))
    assert not [entry for _, entry, _ in after if isinstance(entry, Supplement)]
    told = [e.frame for _, e, _ in after if isinstance(e, EventUpdate | BlobUpdate) and e.source]
    assert len(told) == len(set(map(repr, told)))
    assert {p.tag for p in points(run_dir)} >= {"Loss/value"}
    assert len([p for p in points(run_dir) if p.tag == "Loss/value"]) == ITERATIONS
    assert verify_run(run_dir).history.ended == "failed"


@pytest.mark.parametrize("how", ["emptied", "half", "noise"])
def test_nobody_waits_for_the_end_of_a_run_whose_history_lacks_it(how: str, whole: Path) -> None:
    DAMAGES[how](newest(bus_directory(whole), "history"))
    assert find_abandoned(whole) == ()
