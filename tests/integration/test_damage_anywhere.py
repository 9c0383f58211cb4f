"""One flipped bit anywhere in the journal of a killed run: with the spools there nothing is lost;
without them exactly what the record held, which is counted and named. All else is there once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from killed_run import KilledRun, Told, sequences_of, told

from unilab_metrics.aggregate.folding.entries import EntryKind
from unilab_metrics.run.completing.recovering import recover_run
from unilab_metrics.run.verifying.verify import verify_run
from unilab_metrics.storage.records import HEADER_BYTES, Record

PLACES: dict[str, Callable[[Record], int]] = {
    "magic": lambda record: record.start,
    "length": lambda record: record.start + 4,
    "checksum": lambda record: record.start + HEADER_BYTES - 1,
    "payload": lambda record: (record.start + HEADER_BYTES + record.end) // 2,
    "last byte": lambda record: record.end - 1,
}
COLLECTOR = 2


@pytest.fixture
def run(run_dir: Path, tmp_path: Path) -> KilledRun:
    return KilledRun(run_dir, tmp_path / "copies")


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x04
    path.write_bytes(data)


def undamaged(run: KilledRun) -> Told:
    run.restore()
    recover_run(run.run_dir)
    found = told(run.run_dir)
    assert len(found.values) > 10
    return found


def places(records: list[tuple[Path, Record]]) -> Iterator[tuple[Path, int, int]]:
    """A place in every record, and in the newest of each kind every one."""
    seen: set[int] = set()
    for path, record in reversed(records):
        for name, place in PLACES.items():
            if name == "payload" or record.kind not in seen:
                yield path, record.kind, place(record)
        seen.add(record.kind)


@pytest.mark.parametrize(("prefix", "synced"), [("wal", True), ("wal", False), ("history", True)])
def test_with_the_spools_there_no_flip_costs_anything(
    prefix: str, synced: bool, run: KilledRun
) -> None:
    expected = undamaged(run)
    run.restore()
    for path, kind, at in places(run.records(prefix)):
        run.restore(synced=synced)
        flip(path, at)
        done = recover_run(run.run_dir)
        where = path.name, kind, at
        assert told(run.run_dir) == expected, where
        assert done.is_complete, where
        # Who does not know that a last batch was there finds its iterations sealed already.
        assert not done.late_values or not synced, where
        verified = verify_run(run.run_dir)
        assert (verified.lost_frames, verified.dropped_calls) == (0, {}), where


def lacking(expected: Told, found: Told, tags: str) -> set[int]:
    """Iterations whose values of these tags are not as they should be."""
    assert found.values.keys() <= expected.values.keys()

    def of(told: Told, k: int) -> dict[str, float]:
        values = told.values.get(k, {})
        return {tag: value for tag, value in values.items() if tag.startswith(tags)}

    return {k for k in expected.values if of(found, k) != of(expected, k)}


def test_without_them_exactly_what_the_record_held_is_lost_and_counted(run: KilledRun) -> None:
    expected = undamaged(run)
    run.restore()
    costly = 0
    for path, record in run.records("wal"):
        if record.kind != EntryKind.BATCH:
            continue
        run.restore(trimmed=True)
        flip(path, PLACES["payload"](record))
        done = recover_run(run.run_dir)
        found = told(run.run_dir)
        source, sequences = sequences_of(record)
        where = path.name, record.start, source, sequences
        assert found.events == expected.events, where
        changed = lacking(expected, found, "reward/" if source == COLLECTOR else "Loss/")
        costly += bool(changed)
        counted = sum(taken.lost for taken in done.taken)
        assert len(changed) <= counted <= len(sequences), (where, changed)
        if source == COLLECTOR:
            assert not lacking(expected, found, "Loss/"), where
        if counted:
            assert any("in the" in why for taken in done.taken for why in taken.reasons), where
        verified = verify_run(run.run_dir)
        assert verified.lost_frames == counted, where
    assert costly
