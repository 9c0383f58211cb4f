"""A restart folds what lies behind the newest snapshot, and that is little however long the run."""

from __future__ import annotations

import itertools
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from journal_feeder import Feeder, expected, fold, history, opened, synced

from unilab_metrics.aggregate.core import Core
from unilab_metrics.aggregate.folding.entries import Entry
from unilab_metrics.aggregate.folding.state import AggregatorState
from unilab_metrics.aggregate.journaling import journal as journal_module
from unilab_metrics.aggregate.journaling import snapshots_due
from unilab_metrics.aggregate.journaling.blocks import BlockStore
from unilab_metrics.aggregate.journaling.snapshots_due import Snapshots, superfluous
from unilab_metrics.storage.segments import list_segments

LONG_NS = int(2e9 * snapshots_due.FOLDED_S)


def run(directory: Path, iterations: int, every: int) -> Feeder:
    """A run whose folding takes so long that a snapshot is due after so many iterations."""
    feeder = Feeder()
    with opened(directory) as journal:
        fold(journal, feeder.joined)
        for k in range(1, iterations + 1):
            fold(journal, *feeder.iteration(k))
            journal.commit()
            if k % every == 0:
                synced(journal)
                journal.snapshots.folded(LONG_NS)
    return feeder


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Generator[list[Entry]]:
    """The entries that are folded meanwhile."""
    handled: list[Entry] = []
    handle = AggregatorState.handle

    def count(self: AggregatorState, entry: Entry, records: object = None) -> object:
        handled.append(entry)
        return handle(self, entry, records)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(AggregatorState, "handle", count)
        yield handled


def test_a_restart_folds_only_what_lies_behind_the_newest_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeder = run(tmp_path, 58, every=10)
    with counted(monkeypatch) as handled, opened(tmp_path) as journal:
        assert 0 < len(handled) <= 20
        assert journal.damaged_records == 0
        assert journal.state.data.last_iteration == 58
        assert journal.state.data.sources[0].cursor == feeder.source.sequence
        fold(journal, *feeder.iteration(59))
        journal.commit()
    assert history(tmp_path) == expected(59)


@pytest.mark.parametrize("lost", [1, 30])
def test_of_a_history_that_ends_before_the_snapshot_the_older_wal_makes_the_rest(
    tmp_path: Path, lost: int
) -> None:
    """Torn off, or with its last records: the snapshot alone would leave a hole."""
    run(tmp_path, 58, every=10)
    (path,) = list_segments(tmp_path, "history")
    length = path.stat().st_size // 58
    path.write_bytes(path.read_bytes()[: -lost * length])
    assert len(history(tmp_path)) < 58
    with opened(tmp_path):
        pass
    assert history(tmp_path) == expected(58)


def test_a_hole_before_the_newest_snapshot_is_made_good_from_the_older_wal(tmp_path: Path) -> None:
    run(tmp_path, 58, every=10)
    (path,) = list_segments(tmp_path, "history")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x04
    path.write_bytes(data)
    assert len(history(tmp_path)) < 58
    with opened(tmp_path):
        pass
    assert history(tmp_path) == expected(58)


def test_a_newest_snapshot_that_is_damaged_costs_nothing(tmp_path: Path) -> None:
    feeder = run(tmp_path, 58, every=10)
    path = list_segments(tmp_path, "wal")[-1]
    data = bytearray(path.read_bytes())
    data[400] ^= 0x04
    path.write_bytes(data)
    with opened(tmp_path) as journal:
        assert journal.state.data.sources[0].cursor == feeder.source.sequence
    assert history(tmp_path) == expected(58)


def test_on_a_disk_that_is_never_idle_at_a_commit_the_next_segment_begins_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "WAL_SEGMENT_BYTES", 2000)
    feeder = Feeder()
    with opened(tmp_path) as journal:
        fold(journal, feeder.joined)
        for k in range(1, 40):
            fold(journal, *feeder.iteration(k))
            journal.commit()
            while journal.is_syncing:
                journal.finished_sync()
            # As the aggregator's loop does it where a sync takes longer than a turn.
            assert journal.start_sync(k)
        assert len(list_segments(tmp_path, "wal")) <= 3
        assert list_segments(tmp_path, "wal")[-1].stat().st_size < 4000
    assert history(tmp_path) == expected(39)


def test_what_the_core_folds_counts_until_the_next_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.thread_time_ns", itertools.count(step=7).__next__)
    feeder = Feeder()
    with opened(tmp_path) as journal:
        core = Core(journal, BlockStore(tmp_path, journal), 30.0)
        core.fold(feeder.joined)
        spent: list[int] = []
        journal.snapshots.folded = spent.append  # type: ignore[method-assign]
        for entry in feeder.iteration(1):
            core.fold(entry)
        assert spent == [7, 7]


def test_a_snapshot_is_due_by_what_was_folded_and_rarer_if_it_takes_long_itself() -> None:
    snapshots = Snapshots(AggregatorState())
    assert not snapshots.is_due
    snapshots.folded(LONG_NS)
    assert snapshots.is_due
    assert snapshots.make()
    assert not snapshots.is_due
    snapshots.took_ns = LONG_NS
    snapshots.folded(LONG_NS)
    assert not snapshots.is_due
    snapshots.folded(int(LONG_NS / snapshots_due.SNAPSHOT_SHARE))
    assert snapshots.is_due


def test_one_that_does_not_fit_is_not_tried_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots_due, "MAX_PAYLOAD_BYTES", 10)
    snapshots = Snapshots(AggregatorState())
    snapshots.folded(LONG_NS)
    assert snapshots.make() == b""
    snapshots.folded(LONG_NS)
    assert not snapshots.is_due


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [([], 0), ([100], 1), ([5], 1), ([5, 5, 5, 5], 2), ([1, 100, 1], 1), ([1] * 20, 8)],
)
def test_of_the_older_wal_the_newest_stays_and_more_as_far_as_there_is_room(
    tmp_path: Path, sizes: list[int], kept: int
) -> None:
    older = [tmp_path / f"wal-{number}" for number in range(len(sizes))]
    for path, size in zip(older, sizes, strict=True):
        path.write_bytes(b"x" * size)
    assert superfluous(older, 10) == older[: len(older) - kept]
