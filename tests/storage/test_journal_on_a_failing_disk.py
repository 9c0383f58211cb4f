"""The journal on a disk that is full, or that has lost what it was given."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from journal_feeder import Feeder, expected, fold, history, opened, synced

from unilab_metrics.aggregate.announcing.serving import Server
from unilab_metrics.aggregate.core import MAX_WAITING_BYTES, Core
from unilab_metrics.aggregate.journaling import journal as journal_module
from unilab_metrics.aggregate.journaling.blocks import BlockStore
from unilab_metrics.aggregate.journaling.journal import Journal
from unilab_metrics.aggregate.journaling.journal_file import JournalFile
from unilab_metrics.errors import StorageFullError
from unilab_metrics.storage.records import scan
from unilab_metrics.storage.segments import SegmentWriter, list_segments
from unilab_metrics.subscribe.history import HistoryReader
from unilab_schema.requests import Fetch


def fail_syncs(patch: pytest.MonkeyPatch, times: int) -> None:
    left = [times]
    real = SegmentWriter.fdatasync

    def fdatasync(segment: SegmentWriter) -> None:
        if left[0] > 0:
            left[0] -= 1
            raise OSError(errno.EIO, "lost")
        real(segment)

    patch.setattr(SegmentWriter, "fdatasync", fdatasync)


def forget_unsynced(journal: Journal) -> None:
    """What a kernel does with pages that it could not write."""
    for file in (journal._wal, journal._history):
        path = file.segment.path
        if path.exists():
            os.truncate(path, file.synced_bytes)


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_what_a_failed_sync_was_to_cover_is_written_again(
    failures: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeder = Feeder()
    with opened(tmp_path) as journal, HistoryReader(tmp_path) as reader:
        fold(journal, feeder.joined, *feeder.iteration(1))
        journal.commit()
        assert synced(journal)
        fold(journal, *feeder.iteration(2))
        journal.commit()
        seen = [record.sequence for record in reader.poll()]
        fail_syncs(monkeypatch, failures)
        for _ in range(failures):
            with pytest.raises(OSError, match="lost"):
                synced(journal)
            assert journal.needs_renewal
            forget_unsynced(journal)
            journal.renew()
            fold(journal, *feeder.iteration(feeder.last + 1))
            journal.commit()
        assert synced(journal)
        assert journal.waiting_bytes == 0
        seen += [record.sequence for record in reader.poll()]
        served = Server(journal).updates(Fetch(1, 0))
        last = feeder.last
        # Nobody reads anything twice because it lies elsewhere now.
        assert seen == list(range(1, last + 2))
        assert [r.sequence for r in scan(served.records).records] == seen
        assert (reader.damaged, reader.lost_entries) == (0, 0)
    assert history(tmp_path) == expected(last)
    with opened(tmp_path) as journal:
        assert journal.damaged_records == 0
        assert journal.state.data.sources[0].cursor == feeder.source.sequence
        fold(journal, *feeder.iteration(last + 1))
        journal.commit()
    assert history(tmp_path) == expected(last + 1)


def test_a_failed_first_sync_leaves_no_file_that_nobody_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeder = Feeder()
    with opened(tmp_path) as journal:
        fold(journal, feeder.joined, *feeder.iteration(1))
        journal.commit()
        fail_syncs(monkeypatch, 5)
        for _ in range(5):
            with pytest.raises(OSError, match="lost"):
                synced(journal)
            forget_unsynced(journal)
            journal.renew()
        assert len(list_segments(tmp_path, "history")) == 1
        assert synced(journal)
    assert history(tmp_path) == expected(1)


def test_renewal_on_a_full_disk_goes_on_in_the_old_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeder = Feeder()
    with opened(tmp_path) as journal:
        fold(journal, feeder.joined, *feeder.iteration(1))
        journal.commit()
        assert synced(journal)
        fail_syncs(monkeypatch, 1)
        fold(journal, *feeder.iteration(2))
        journal.commit()
        with pytest.raises(OSError, match="lost"):
            synced(journal)
        before = sorted(tmp_path.iterdir())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(JournalFile, "_make", full)
            with pytest.raises(StorageFullError):
                journal.renew()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SegmentWriter, "append", full)
            with pytest.raises(StorageFullError):
                journal.renew()
        assert sorted(tmp_path.iterdir()) == before
        fold(journal, *feeder.iteration(3))
        journal.commit()
        journal.renew()
        assert synced(journal)
    assert history(tmp_path) == expected(3)


def full(*_: object) -> SegmentWriter:
    raise StorageFullError("/disk", 1, errno.ENOSPC)


def test_a_segment_that_cannot_be_begun_is_begun_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "WAL_SEGMENT_BYTES", 2000)
    monkeypatch.setattr(journal_module, "HISTORY_SEGMENT_BYTES", 500)
    feeder = Feeder()
    with opened(tmp_path) as journal:
        fold(journal, feeder.joined)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(JournalFile, "_make", full)
            for k in range(1, 30):
                fold(journal, *feeder.iteration(k))
                journal.commit()
                synced(journal)
            assert isinstance(journal.rotation_error, StorageFullError)
        assert len(list_segments(tmp_path, "history")) == 1
        fold(journal, *feeder.iteration(30))
        journal.commit()
        assert journal.rotation_error is None
        assert len(list_segments(tmp_path, "history")) == 2
    assert history(tmp_path) == expected(30)


@pytest.mark.parametrize("passes", [0, 1, 2, 3])
def test_a_journal_that_cannot_be_begun_leaves_nothing(
    passes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeder = Feeder()
    with opened(tmp_path) as journal:
        fold(journal, feeder.joined, *feeder.iteration(1))
    # What its beginning adds to the history is what a kill has cut off there.
    path = list_segments(tmp_path, "history")[-1]
    os.truncate(path, path.stat().st_size - 20)
    before = sorted(tmp_path.iterdir())
    left = [passes]
    real = SegmentWriter.append

    def append(segment: SegmentWriter, data: bytes) -> int:
        if not left[0]:
            full()
        left[0] -= 1
        return real(segment, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SegmentWriter, "append", append)
        with pytest.raises(StorageFullError):
            Journal(tmp_path)
    assert sorted(tmp_path.iterdir()) == before
    with opened(tmp_path) as journal:
        assert journal.epoch.counter == 2
    assert history(tmp_path) == expected(1)


def test_input_is_refused_while_too_much_waits_for_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("unilab_metrics.aggregate.core.MAX_WAITING_BYTES", 20_000)
    monkeypatch.setattr("unilab_metrics.aggregate.core.RETRY_NS", 0)
    feeder = Feeder()
    with opened(tmp_path) as journal:
        blocks = BlockStore(tmp_path, journal)
        core = Core(journal, blocks, 30.0)
        for entry in (feeder.joined, *feeder.iteration(1)):
            core.fold(entry)
        assert core.commit()
        committed = core.committed_cursor(0)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SegmentWriter, "append", full)
            while core.accepts_input:
                for entry in feeder.iteration(feeder.last + 1):
                    core.fold(entry)
                assert not core.commit()
            assert core.problem.startswith("journal: /disk: no room")
            assert core.committed_cursor(0) == committed
            assert not core.makes_room()
        assert core.commit()
        wait_for(lambda: is_on_the_disk(core))
        assert core.problem == ""
        assert core.accepts_input
        assert core.committed_cursor(0) == feeder.source.sequence
        core.commit()
        blocks.close()
    assert [k for _, k, _ in history(tmp_path)] == list(range(1, feeder.last + 1))
    # Where it goes is a matter of the process, which other tests share.
    said = "".join(capfd.readouterr())
    assert said.count("frames wait in the spools") == 1
    assert said.count("nothing was lost") == 1


def is_on_the_disk(core: Core) -> bool:
    core.commit()
    core.sync()
    return core.durable_update == core.journal.committed_update and not core.problem


def wait_for(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


def test_the_bound_is_what_the_document_says() -> None:
    assert MAX_WAITING_BYTES == 64 * 1024 * 1024
