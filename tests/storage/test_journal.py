"""The journal over restarts: folding gives the same numbers, the history stays whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from journal_feeder import Feeder, expected, fold, history, opened, synced

from unilab_metrics.aggregate.announcing.serving import Server
from unilab_metrics.aggregate.journaling import journal as journal_module
from unilab_metrics.aggregate.journaling.evidence import DURABLE_FILE
from unilab_metrics.storage.records import scan
from unilab_metrics.storage.segments import list_segments
from unilab_metrics.subscribe.history import HistoryReader
from unilab_schema.requests import Fetch
from unilab_schema.updates import AttemptOpened


def test_restart_goes_on_where_the_last_commit_was(tmp_path: Path) -> None:
    feeder = Feeder()
    with opened(tmp_path) as journal:
        fold(journal, feeder.joined, *feeder.iteration(1))
        journal.commit()
        first_epoch = journal.epoch
    with opened(tmp_path) as journal:
        assert journal.epoch.journal == first_epoch.journal
        assert journal.epoch.counter == first_epoch.counter + 1
        assert journal.state.data.sources[0].cursor == feeder.source.sequence
        fold(journal, *feeder.iteration(2))
        journal.commit()
    assert history(tmp_path) == expected(2)


def test_window_that_was_open_is_open_again_after_a_restart(tmp_path: Path) -> None:
    feeder = Feeder()
    frame, seal = feeder.iteration(1)
    with opened(tmp_path) as journal:
        fold(journal, feeder.joined, frame)
        journal.commit()
    with opened(tmp_path) as journal:
        fold(journal, seal)
        journal.commit()
    assert history(tmp_path) == expected(1)


def test_history_that_missed_a_commit_is_completed_from_the_wal(tmp_path: Path) -> None:
    feeder = Feeder()
    with opened(tmp_path) as journal:
        fold(journal, feeder.joined, *feeder.iteration(1))
        journal.commit()
        before = list_segments(tmp_path, "history")[-1].stat().st_size
        fold(journal, *feeder.iteration(2), *feeder.iteration(3))
        journal.commit()
    # As if the process had died between the two writes of the last commit.
    with list_segments(tmp_path, "history")[-1].open("r+b") as file:
        file.truncate(before)
    with opened(tmp_path):
        assert history(tmp_path) == expected(3)


def test_history_beyond_the_wal_is_cut_off(tmp_path: Path) -> None:
    feeder = Feeder()
    with opened(tmp_path) as journal:
        fold(journal, feeder.joined, *feeder.iteration(1))
        journal.commit()
        before = list_segments(tmp_path, "wal")[-1].stat().st_size
        fold(journal, *feeder.iteration(2))
        journal.commit()
    # As if the node had lost power with only the history's pages written.
    with list_segments(tmp_path, "wal")[-1].open("r+b") as file:
        file.truncate(before)
    (tmp_path / DURABLE_FILE).unlink()
    feeder.source.sequence -= 1
    with opened(tmp_path) as journal:
        assert history(tmp_path) == expected(1)
        assert journal.state.data.sources[0].cursor == feeder.source.sequence
        fold(journal, *feeder.iteration(2))
        journal.commit()
        served = Server(journal).updates(Fetch(1, 0))
    assert history(tmp_path) == expected(2)
    assert [r.sequence for r in scan(served.records).records] == [1, 2, 3]


@pytest.mark.parametrize("prefix", ["wal", "history"])
def test_torn_tail_is_cut_at_every_byte(prefix: str, tmp_path: Path) -> None:
    for cut in range(1, 60, 7):
        directory = tmp_path / str(cut)
        directory.mkdir()
        feeder = Feeder()
        with opened(directory) as journal:
            fold(journal, feeder.joined, *feeder.iteration(1))
            journal.commit()
            fold(journal, *feeder.iteration(2))
            journal.commit()
        path = list_segments(directory, prefix)[-1]
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size - cut)
        with opened(directory) as journal:
            source = journal.state.data.sources[0]
            feeder.source.sequence = source.cursor
            done = journal.state.data.last_iteration
            assert done is not None
            pending = [f for k in range(done + 1, 4) for f in feeder.iteration(k)]
            if journal.state.data.windows.open:
                pending = pending[1:]
            fold(journal, *pending)
            journal.commit()
        assert history(directory) == expected(3), cut


def test_bytes_that_a_zombie_appends_later_are_ignored(tmp_path: Path) -> None:
    feeder = Feeder()
    with opened(tmp_path) as journal:
        fold(journal, feeder.joined, *feeder.iteration(1))
        journal.commit()
    old = {prefix: list_segments(tmp_path, prefix)[-1] for prefix in ("wal", "history")}
    saved = {prefix: path.read_bytes() for prefix, path in old.items()}
    with opened(tmp_path) as journal:
        fold(journal, *feeder.iteration(2))
        journal.commit()
        for prefix, path in old.items():
            with path.open("ab") as file:
                file.write(saved[prefix][-200:] * 3)
    with opened(tmp_path) as journal:
        fold(journal, *feeder.iteration(3))
        journal.commit()
    assert history(tmp_path) == expected(3)


def test_rotation_keeps_the_whole_history_and_one_wal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "WAL_SEGMENT_BYTES", 2000)
    monkeypatch.setattr(journal_module, "HISTORY_SEGMENT_BYTES", 500)
    feeder = Feeder()
    with opened(tmp_path) as journal:
        fold(journal, feeder.joined)
        for k in range(1, 60):
            fold(journal, *feeder.iteration(k))
            journal.commit()
            synced(journal)
        assert len(list_segments(tmp_path, "history")) > 5
        assert len(list_segments(tmp_path, "wal")) <= 2
    assert history(tmp_path) == expected(59)
    with opened(tmp_path) as journal:
        fold(journal, *feeder.iteration(60))
        journal.commit()
    assert history(tmp_path) == expected(60)


@pytest.mark.parametrize("every", [3, 5, 7])
def test_the_oldest_wal_that_is_left_is_not_taken_for_damaged(
    every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins with copies of entries that its predecessor had not synced; what these build on
    went with older ones."""
    monkeypatch.setattr(journal_module, "WAL_SEGMENT_BYTES", 1000)
    feeder = Feeder()
    with opened(tmp_path) as journal:
        fold(journal, feeder.joined)
        for k in range(1, 60):
            fold(journal, *feeder.iteration(k))
            journal.commit()
            if k % every == 0:
                synced(journal)
    with opened(tmp_path) as journal:
        assert journal.damaged_records == 0
        assert journal.state.data.sources[0].cursor == feeder.source.sequence
    assert history(tmp_path) == expected(59)


def test_subscriber_is_served_from_the_files_once_the_tail_has_moved_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "TAIL_BYTES", 500)
    monkeypatch.setattr(journal_module, "HISTORY_SEGMENT_BYTES", 1500)
    feeder = Feeder()
    with opened(tmp_path) as journal:
        fold(journal, feeder.joined)
        for k in range(1, 50):
            fold(journal, *feeder.iteration(k))
            journal.commit()
        server = Server(journal)
        after = 0
        seen: list[int] = []
        while after < journal.committed_update:
            reply = server.updates(Fetch(1, after, limit=7))
            seen += [r.sequence for r in scan(reply.records).records]
            assert reply.last > after
            after = reply.last
            assert {layout.layout for layout in reply.layouts} <= {0}
    assert seen == list(range(1, 51))


def test_uncommitted_entries_are_neither_served_nor_counted(tmp_path: Path) -> None:
    feeder = Feeder()
    with opened(tmp_path) as journal:
        fold(journal, feeder.joined)
        journal.commit()
        fold(journal, *feeder.iteration(1))
        reply = Server(journal).updates(Fetch(1, 0))
        assert [r.sequence for r in scan(reply.records).records] == [1]
        assert journal.committed_update == 1


def test_damaged_record_in_the_middle_of_the_wal_costs_only_itself(tmp_path: Path) -> None:
    feeder = Feeder()
    with opened(tmp_path) as journal:
        fold(journal, feeder.joined, *feeder.iteration(1))
        journal.commit()
        start = list_segments(tmp_path, "wal")[-1].stat().st_size
        fold(journal, *feeder.iteration(2))
        journal.commit()
        fold(journal, *feeder.iteration(3))
        journal.commit()
    path = list_segments(tmp_path, "wal")[-1]
    data = bytearray(path.read_bytes())
    data[start + 40] ^= 0xFF
    path.write_bytes(data)
    with opened(tmp_path) as journal:
        assert journal.damaged_records == 1
        assert journal.state.data.last_iteration == 3
        fold(journal, *feeder.iteration(4))
        journal.commit()
    assert history(tmp_path) == expected(4)


def test_opening_is_published_once_for_each_attempt(tmp_path: Path) -> None:
    feeder = Feeder()
    with opened(tmp_path) as journal:
        fold(journal, feeder.joined)
        journal.commit()
    with opened(tmp_path):
        reader = HistoryReader(tmp_path)
        entries = [r.entry for r in reader.poll(10)]
        reader.close()
    assert [type(entry) for entry in entries] == [AttemptOpened]
