"""What damage in the journal costs: the aggregator starts, and each iteration is there once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sources_on_paper import MS, PaperSource

from unilab_metrics.aggregate.folding.entries import Entry, EntryKind, Seal, SourceJoined
from unilab_metrics.aggregate.journaling import journal as journal_module
from unilab_metrics.aggregate.journaling.journal import Journal
from unilab_metrics.errors import ExitCode, UnknownVersionError
from unilab_metrics.storage.records import HEADER_BYTES, Record, encode_record, scan
from unilab_metrics.storage.segments import KIND_SEGMENT_HEADER, list_segments
from unilab_metrics.subscribe.history import HistoryReader
from unilab_schema.identity import Identity, RunInfo, SourceKey
from unilab_schema.updates import Update

HEADER_FIELDS = {"magic": 0, "version": 2, "kind": 3, "length": 4, "sequence": 8, "crc": 16}


@contextmanager
def opened(directory: Path) -> Iterator[Journal]:
    journal = Journal(directory)
    try:
        yield journal
    finally:
        journal.close()


def fold(journal: Journal, *entries: Entry) -> None:
    for entry in entries:
        journal.append(entry)
        journal.publish(journal.state.handle(entry))
    journal.commit()


class Run:
    """Three iterations in one life; each entry is a record of the wal."""

    def __init__(self, directory: Path) -> None:
        identity = Identity(
            SourceKey(0, "learner"), b"i" * 16, 1, "host", "boot", "", "", 0, 0, 1, RunInfo("sac")
        )
        self.directory = directory
        self.source = PaperSource(0, identity)
        directory.mkdir()
        with opened(directory) as journal:
            fold(journal, SourceJoined(0, identity))
            for k in (1, 2, 3):
                fold(journal, *self.iteration(k))
        self.wal = list_segments(directory, "wal")[-1]
        self.history = list_segments(directory, "history")[-1]

    def iteration(self, k: int) -> tuple[Entry, Entry]:
        frame = self.source.iteration(k, {"a": float(k)}, t=k)
        return frame, Seal(k, k * MS, k * MS)

    def records(self, kind: int) -> list[Record]:
        return [r for r in scan(self.wal.read_bytes()).records if r.kind == kind]

    def change(self, path: Path, change: Callable[[bytearray], None]) -> None:
        data = bytearray(path.read_bytes())
        change(data)
        path.write_bytes(data)

    def go_on(self) -> Journal:
        """The next life takes iteration 4."""
        with opened(self.directory) as journal:
            if journal.state.data.sources:
                self.source.sequence = journal.state.data.sources[0].cursor
                fold(journal, *self.iteration(4))
            return journal

    def iterations(self) -> list[int]:
        with HistoryReader(self.directory) as reader:
            return [r.entry.iteration for r in reader.poll(1000) if isinstance(r.entry, Update)]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path / "bus")


@pytest.mark.parametrize("kind", [EntryKind.BATCH, EntryKind.SEAL])
@pytest.mark.parametrize("field", [*HEADER_FIELDS, "payload"])
def test_a_flip_in_any_field_of_a_record_seals_nothing_twice(
    field: str, kind: EntryKind, run: Run
) -> None:
    start = run.records(kind)[1].start + HEADER_FIELDS.get(field, HEADER_BYTES)

    def flip(data: bytearray) -> None:
        data[start] ^= 0x04

    run.change(run.wal, flip)
    journal = run.go_on()
    assert journal.damaged_records == 1
    assert run.iterations() == [1, 2, 3, 4]


@pytest.mark.parametrize("copy", [0, 1])
def test_what_every_later_entry_builds_on_survives_a_flip(copy: int, run: Run) -> None:
    at = run.records(EntryKind.SOURCE_JOINED)[copy].start + HEADER_BYTES

    def flip(data: bytearray) -> None:
        data[at] ^= 0x04

    run.change(run.wal, flip)
    journal = run.go_on()
    assert journal.damaged_records == 1
    assert len(journal.state.data.sources) == 1
    assert run.iterations() == [1, 2, 3, 4]


def test_a_flip_in_the_last_decision_seals_nothing_twice(run: Run) -> None:
    start = run.records(EntryKind.SEAL)[-1].start

    def flip(data: bytearray) -> None:
        data[start + HEADER_BYTES + 1] ^= 0x10

    run.change(run.wal, flip)
    with opened(run.directory) as journal:
        windows = journal.state.data.windows.open
        fold(journal, *(Seal(k, k * MS, k * MS) for k in sorted(windows)))
    assert run.iterations() == [1, 2, 3]


def test_a_damaged_snapshot_is_made_again_from_the_segment_before_it(run: Run) -> None:
    run.go_on()
    newest = list_segments(run.directory, "wal")[-1]
    snapshot = next(r for r in scan(newest.read_bytes()).records if r.kind == EntryKind.SNAPSHOT)
    start = snapshot.start + HEADER_BYTES + 20

    def flip(data: bytearray) -> None:
        data[start] ^= 0x10

    run.change(newest, flip)
    with opened(run.directory) as journal:
        assert journal.damaged_records == 1
        assert journal.state.data.last_iteration == 4
        assert journal.state.data.sources[0].cursor == run.source.sequence
    assert run.iterations() == [1, 2, 3, 4]


@pytest.mark.parametrize("which", ["wal", "history"])
@pytest.mark.parametrize("at", range(30))
def test_a_damaged_segment_header_does_not_keep_the_aggregator_from_starting(
    at: int, which: str, run: Run
) -> None:
    path = run.wal if which == "wal" else run.history

    def flip(data: bytearray) -> None:
        data[at] ^= 0x02

    run.change(path, flip)
    run.go_on()
    assert run.iterations() == [1, 2, 3, 4]


@pytest.mark.parametrize("which", ["wal", "history"])
def test_a_cut_at_every_byte_of_the_last_record_is_made_up_for(which: str, tmp_path: Path) -> None:
    first = Run(tmp_path / "size")
    path = first.wal if which == "wal" else first.history
    last = scan(path.read_bytes()).records[-1]
    for cut in range(1, last.end - last.start + 1, 5):
        run = Run(tmp_path / str(cut))
        path = run.wal if which == "wal" else run.history
        path.write_bytes(path.read_bytes()[: last.end - cut])
        with opened(run.directory) as journal:
            windows = journal.state.data.windows.open
            fold(journal, *(Seal(k, k * MS, k * MS) for k in sorted(windows)))
        assert run.iterations() == [1, 2, 3], cut


@pytest.mark.parametrize("which", ["wal", "history"])
@pytest.mark.parametrize("zeros", [3, 24, 4096])
def test_a_zeroed_tail_is_no_damage(zeros: int, which: str, run: Run) -> None:
    path = run.wal if which == "wal" else run.history
    path.write_bytes(path.read_bytes() + bytes(zeros))
    journal = run.go_on()
    assert journal.damaged_records == 0
    assert run.iterations() == [1, 2, 3, 4]


@pytest.mark.parametrize("which", ["wal", "history"])
def test_an_all_zero_newest_segment_is_as_if_it_had_not_been_begun(which: str, run: Run) -> None:
    run.go_on()
    newest = list_segments(run.directory, which)[-1]
    newest.write_bytes(bytes(newest.stat().st_size))
    with opened(run.directory) as journal:
        source = journal.state.data.sources[0]
        done = journal.state.data.last_iteration
        if done == 3:
            run.source.sequence = source.cursor
            fold(journal, *run.iteration(4))
    assert run.iterations() == [1, 2, 3, 4]


def test_garbage_in_the_middle_of_the_wal_is_one_damage(run: Run) -> None:
    start = run.records(EntryKind.SEAL)[0].end

    def insert(data: bytearray) -> None:
        data[start:start] = b"um\x01\x41" + b"garbage" * 50

    run.change(run.wal, insert)
    journal = run.go_on()
    assert journal.damaged_records == 1
    assert run.iterations() == [1, 2, 3, 4]


def test_a_missing_wal_segment_loses_no_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "HISTORY_SEGMENT_BYTES", 150)
    run = Run(tmp_path / "bus")
    for path in list_segments(run.directory, "wal"):
        path.unlink()
    before = Counter(run.iterations())
    with opened(run.directory):
        pass
    assert Counter(run.iterations()) <= before


@pytest.mark.parametrize("which", ["wal", "history"])
def test_another_format_version_is_refused_with_its_exit_code(which: str, run: Run) -> None:
    path = run.wal if which == "wal" else run.history
    later = encode_record(KIND_SEGMENT_HEADER, 0, b"\x91\x07")
    path.write_bytes(later + path.read_bytes())
    before = sorted(p.name for p in run.directory.iterdir())
    with pytest.raises(UnknownVersionError) as refused:
        Journal(run.directory)
    assert refused.value.exit_code == ExitCode.DAMAGED
    assert sorted(p.name for p in run.directory.iterdir()) == before
