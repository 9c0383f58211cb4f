"""The journal of a killed run is damaged twice: what the first damage has left only in the history
is told once, also when its sources come only after the second one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from killed_run import KilledRun, told

from unilab_metrics.aggregate.folding.entries import (
    EntryKind,
    OpenAttempt,
    SourceJoined,
    decode_entry,
)
from unilab_metrics.aggregate.journaling.evidence import DURABLE_FILE
from unilab_metrics.aggregate.journaling.recovery import WAL_KINDS, recover
from unilab_metrics.aggregate.leaving.leftovers import SpoolDirectories
from unilab_metrics.aggregate.offline import OfflineJournal
from unilab_metrics.run.completing.recovering import recover_run
from unilab_metrics.run.verifying.verify import verify_run
from unilab_metrics.storage.records import Record, scan
from unilab_metrics.storage.segments import KIND_SEGMENT_HEADER, list_segments

Which = Callable[[list[Record]], list[Record]]


@pytest.fixture
def run(run_dir: Path, tmp_path: Path) -> KilledRun:
    return KilledRun(run_dir, tmp_path / "copies")


def zero(path: Path, which: Which) -> None:
    data = bytearray(path.read_bytes())
    records = scan(bytes(data), kinds=WAL_KINDS).records
    for record in which([r for r in records if r.kind != KIND_SEGMENT_HEADER]):
        data[record.start : record.end] = bytes(record.end - record.start)
    path.write_bytes(data)


def everything(records: list[Record]) -> list[Record]:
    return records


def last_batches(records: list[Record]) -> list[Record]:
    return [record for record in records if record.kind == EntryKind.BATCH][-12:]


def early_batches(records: list[Record]) -> list[Record]:
    return [record for record in records if record.kind == EntryKind.BATCH][2:8]


def a_short_life(run: KilledRun) -> None:
    """An aggregator that makes durable what it has found, and dies before any source is back."""
    journal = OfflineJournal(run.bus_dir, SpoolDirectories([]))
    journal.make_durable(10.0)
    journal.close()


def lose(run: KilledRun, knows: str, first: Which) -> None:
    run.restore(synced=knows != "nothing")
    for path in list_segments(run.bus_dir, "wal"):
        zero(path, first)


@pytest.mark.parametrize("knows", ["all", "nothing", "only the first"])
@pytest.mark.parametrize("first", [everything, last_batches, early_batches])
@pytest.mark.parametrize("lives", [1, 2])
def test_what_only_the_history_has_is_known_after_the_next_damage_too(
    lives: int, first: Which, knows: str, run: KilledRun
) -> None:
    run.restore()
    recover_run(run.run_dir)
    expected = told(run.run_dir)
    lose(run, knows, first)
    for _ in range(lives):
        evidence = run.bus_dir / DURABLE_FILE
        old = evidence.read_bytes() if evidence.exists() else b""
        a_short_life(run)
        zero(list_segments(run.bus_dir, "wal")[-1], everything)
        if knows == "only the first":
            evidence.write_bytes(old)
    recover_run(run.run_dir)
    found = told(run.run_dir)
    assert found.events == expected.events
    assert found.values.keys() == expected.values.keys()
    if knows == "all":
        assert found.values == expected.values
    assert verify_run(run.run_dir).lost_frames == 0


def test_who_comes_back_only_in_the_next_attempt_is_known_too(run: KilledRun) -> None:
    run.restore()
    joined = next(r for _, r in run.records("wal") if r.kind == EntryKind.SOURCE_JOINED)
    entry = decode_entry(joined.kind, joined.payload)
    assert isinstance(entry, SourceJoined)
    lose(run, "all", everything)
    state = recover(run.bus_dir).state
    cursor, _ = state.data.told[entry.identity.incarnation.hex()]
    assert cursor > 0
    assert not state.data.sources
    state.handle(OpenAttempt(2, 0))
    state.handle(SourceJoined(0, entry.identity, is_late=True))
    assert state.data.sources[0].told_through == cursor
