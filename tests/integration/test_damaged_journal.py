"""One half of the journal is damaged after the run was safe: nothing that the other half, or a
backend, has is lost, told again or numbered anew; neither by ``recover`` nor by the next attempt."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from cut_off_run import end, log, newest, open_run_directory, source, whole_run

from unilab_metrics.cli.root import commands
from unilab_metrics.config import RUN_SUMMARY_FILE
from unilab_metrics.run.event_points import Point, held_position, marked_points
from unilab_metrics.run.recovering import Recovery, recover_run
from unilab_metrics.run.verify import verify_run
from unilab_metrics.subscribe.history import HistoryReader
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_schema.updates import AttemptOpened, HistoryEntry, Update

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
