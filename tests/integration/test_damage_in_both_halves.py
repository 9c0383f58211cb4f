"""Both halves of the journal of a killed run are damaged: of the history is made again what the wal
tells before its own damage, and what neither half has is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from killed_run import KilledRun, told

from unilab_metrics.aggregate.folding.entries import EntryKind
from unilab_metrics.aggregate.journaling.recovery import recover
from unilab_metrics.run.completing.recovering import recover_run
from unilab_metrics.run.completing.recovery import Recovery
from unilab_metrics.run.completing.recovery_report import recovery_fields, recovery_lines
from unilab_metrics.run.verifying.verify import verify_run
from unilab_metrics.storage.records import Record
from unilab_metrics.subscribe.history import HistoryReader


@pytest.fixture
def run(run_dir: Path, tmp_path: Path) -> KilledRun:
    return KilledRun(run_dir, tmp_path / "copies")


def flip(path: Path, record: Record) -> None:
    data = bytearray(path.read_bytes())
    data[(record.start + record.end) // 2] ^= 0x04
    path.write_bytes(data)


def entries(run: KilledRun) -> list[tuple[Path, Record]]:
    """Those of the history that have a number."""
    return [(path, record) for path, record in run.records("history") if record.sequence]


def newest_of(kind: EntryKind, run: KilledRun) -> list[tuple[Path, Record]]:
    """Those of the wal behind the newest snapshot."""
    found = run.records("wal")
    return [(p, r) for p, r in found if r.kind == kind and p == found[-1][0]]


def damage_told(done: Recovery) -> str:
    return "\n".join(line for line in recovery_lines(done) if line.startswith("damage"))


def test_a_hole_before_the_damage_of_the_wal_is_made_good(run: KilledRun) -> None:
    run.restore()
    recover_run(run.run_dir)
    expected = told(run.run_dir)
    run.restore()
    early = [entry for entry in entries(run) if entry[1].sequence <= len(entries(run)) // 2]
    late = newest_of(EntryKind.BATCH, run)[-3]
    for hole in early:
        run.restore()
        flip(*late)
        flip(*hole)
        done = recover_run(run.run_dir)
        where = hole[1].sequence
        assert done.gone == "", where
        assert told(run.run_dir) == expected, where
        assert "the other half of the journal has it" in damage_told(done), where
        assert verify_run(run.run_dir).lost_frames == 0, where


def sequences(run: KilledRun) -> list[int]:
    with HistoryReader(run.bus_dir) as reader:
        found = [record.sequence for record in reader.poll(1_000_000)]
        assert reader.damaged == 0
    return found


@pytest.mark.parametrize("how", ["flipped", "truncated"])
def test_what_neither_half_has_is_named(how: str, run: KilledRun) -> None:
    run.restore()
    path, hole = entries(run)[-4]
    last = entries(run)[-1][1].sequence
    flip(*newest_of(EntryKind.BATCH, run)[0])
    if how == "flipped":
        flip(path, hole)
        text = f"update {hole.sequence} is in neither half"
    else:
        path.write_bytes(path.read_bytes()[: hole.start])
        text = f"updates {hole.sequence} to {last} are in neither half"
    assert any(text in fault for fault in recover(run.bus_dir).faults)
    done = recover_run(run.run_dir)
    assert damage_told(done).count(text) == 1
    assert "other half of the journal has" not in damage_told(done)
    assert text in recovery_fields(done)["gone"]
    assert "of the wal" in damage_told(done)
    assert hole.sequence not in [r.sequence for _, r in run.records("history")]


def test_what_is_left_behind_a_hole_stays_with_its_numbers(run: KilledRun) -> None:
    run.restore()
    middle, end = entries(run)[4], entries(run)[-3]
    before = [record.sequence for _, record in entries(run)]
    flip(*newest_of(EntryKind.SEAL, run)[-4])
    flip(*middle)
    flip(*end)
    done = recover_run(run.run_dir)
    assert f"update {end[1].sequence} is in neither half" in damage_told(done)
    after = sequences(run)
    assert set(before) - set(after) == {end[1].sequence}
