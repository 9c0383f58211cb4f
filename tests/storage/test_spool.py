"""The spool: one sequence without a hole, whatever fails or reads along."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from made_spools import MakeSpool, counts, event, identity, layout, sequences, texts

from unilab_metrics.publish import losses
from unilab_metrics.publish.spool_files import limits
from unilab_metrics.storage import lease
from unilab_metrics.storage.records import scan
from unilab_metrics.storage.spool_reader import SpoolReader
from unilab_schema.codec import RecordKind, encode_payload
from unilab_schema.frames import End


def test_records_lie_there_in_sequence_as_soon_as_append_returns(make: MakeSpool) -> None:
    spool = make()
    for number in range(3):
        assert spool.append(RecordKind.EVENT, event(str(number)))
    assert spool.last == 3
    assert texts(spool) == ["0", "1", "2"]
    assert texts(spool, after=2) == ["2"]
    assert SpoolReader(spool.directory).identity == identity()


def test_files_are_private_and_the_lease_is_held_until_the_end(make: MakeSpool) -> None:
    spool = make()
    files = {path.name: path.stat().st_mode & 0o777 for path in spool.directory.iterdir()}
    assert files == {"lease": 0o600, "spool-000001-000001": 0o600}
    assert spool.directory.stat().st_mode & 0o777 == 0o700
    assert not lease.is_free(spool.directory / "lease")
    spool.close(remove=False)
    assert lease.is_free(spool.directory / "lease")
    assert (spool.directory / "lease").exists()


def test_a_delivered_spool_leaves_nothing_behind(make: MakeSpool) -> None:
    spool = make()
    spool.append(RecordKind.EVENT, event())
    spool.close(remove=True)
    assert not spool.directory.exists()
    assert not spool.append(RecordKind.EVENT, event())
    assert counts(spool) == {losses.CLOSED: 1}


def test_every_segment_can_be_read_alone(make: MakeSpool) -> None:
    spool = make(segment_bytes=2000)
    spool.append(RecordKind.LAYOUT, layout(0), announcement=True)
    for number in range(60):
        if number == 20:
            spool.append(RecordKind.LAYOUT, layout(1), announcement=True)
        spool.append(RecordKind.EVENT, event(str(number) * 50))
    segments = sorted(path for path in spool.directory.iterdir() if path.name != "lease")
    assert len(segments) > 3
    kinds = [(r.kind, r.sequence) for r in scan(segments[-1].read_bytes()).records[:3]]
    assert kinds == [(RecordKind.IDENTITY, 0), (RecordKind.LAYOUT, 0), (RecordKind.LAYOUT, 0)]
    sequences = [r.sequence for p in segments for r in scan(p.read_bytes()).records if r.sequence]
    assert sequences == list(range(1, 63))


def test_beyond_the_quota_the_newest_are_dropped_and_counted(make: MakeSpool) -> None:
    spool = make(segment_bytes=1000, quota_bytes=3000)
    accepted = [spool.append(RecordKind.EVENT, event("x" * 50)) for _ in range(60)]
    held = spool.last
    assert accepted == [True] * held + [False] * (60 - held)
    assert counts(spool) == {losses.SPOOL_QUOTA: 60 - held}
    assert len(texts(spool)) == held
    spool.files.trim(held)
    assert spool.append(RecordKind.EVENT, event())
    assert spool.last == held + 1


def test_trimming_keeps_what_is_not_durable(make: MakeSpool) -> None:
    spool = make(segment_bytes=1000)
    for number in range(40):
        spool.append(RecordKind.EVENT, event(str(number) * 50))
    before = len(list(spool.directory.iterdir()))
    spool.files.trim(20)
    assert 1 < spool.files.first <= 21
    assert len(list(spool.directory.iterdir())) < before
    batch = spool.files.take(20, spool.last, 10**6)
    assert scan(batch.records).records[-1].sequence == batch.last
    gone = spool.files.take(0, spool.last, 10**6)
    (gap,) = scan(gone.records).records
    assert (gap.kind, gap.sequence) == (RecordKind.GAP, spool.files.first - 1)


def test_who_has_lost_what_was_trimmed_is_told_the_layouts_again(make: MakeSpool) -> None:
    spool = make(segment_bytes=1000)
    spool.append(RecordKind.LAYOUT, layout(0), announcement=True)
    for number in range(40):
        spool.append(RecordKind.EVENT, event(str(number) * 50))
    spool.files.trim(20)
    gap, announced = scan(spool.files.take(0, spool.last, 10**6).records).records
    assert (gap.kind, gap.sequence) == (RecordKind.GAP, spool.files.first - 1)
    assert (announced.kind, announced.sequence) == (RecordKind.LAYOUT, 0)


def test_a_batch_is_bounded_but_holds_at_least_one_record(make: MakeSpool) -> None:
    spool = make()
    for _ in range(10):
        spool.append(RecordKind.EVENT, event("x" * 1000))
    assert spool.files.take(0, 10, 100).last == 1
    assert spool.files.take(3, 10, 2500).last == 5
    assert spool.files.take(3, 4, 10**6).last == 4


def test_a_short_write_is_cut_back_and_counted(
    make: MakeSpool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = make()
    spool.append(RecordKind.EVENT, event("before"))
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:11]))
    assert not spool.append(RecordKind.EVENT, event("lost"))
    monkeypatch.undo()
    assert spool.append(RecordKind.EVENT, event("after"))
    assert texts(spool) == ["before", "after"]
    assert spool.last == 2
    assert counts(spool) == {losses.SPOOL_FULL: 1}


@pytest.mark.parametrize(
    ("number", "reason"),
    [(errno.ENOSPC, losses.SPOOL_FULL), (errno.EIO, losses.SPOOL_ERROR)],
)
def test_a_failing_disk_is_counted_and_forgotten_when_it_works_again(
    make: MakeSpool, monkeypatch: pytest.MonkeyPatch, number: int, reason: str
) -> None:
    spool = make()

    def fail(fd: int, data: bytes) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "write", fail)
    assert not spool.append(RecordKind.EVENT, event())
    monkeypatch.undo()
    assert spool.append(RecordKind.EVENT, event("good"))
    assert texts(spool) == ["good"]
    assert counts(spool) == {reason: 1}


def test_a_record_beyond_the_limit_is_counted(make: MakeSpool) -> None:
    spool = make()
    assert not spool.append(RecordKind.EVENT, event("x" * 300_000))
    assert spool.append(RecordKind.EVENT, event("x" * 200_000))
    assert counts(spool) == {losses.OVERSIZE: 1}


def test_a_deleted_directory_costs_nothing_that_is_already_open(
    make: MakeSpool, tmp_path: Path
) -> None:
    spool = make(segment_bytes=1000)
    spool.append(RecordKind.EVENT, event())
    spool.directory.rename(tmp_path / "elsewhere")
    for _ in range(20):
        assert spool.append(RecordKind.EVENT, event())
    assert counts(spool) == {}
    assert sequences(spool) == list(range(1, 22))
    # The next segment has a directory and a lease of its own again.
    assert len(list(spool.directory.iterdir())) > 1
    assert not lease.is_free(spool.directory / "lease")


def test_room_of_what_is_durable_is_given_back_where_nothing_more_fits(
    make: MakeSpool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = make()
    spool.append(RecordKind.LAYOUT, layout(0), announcement=True)
    for _ in range(9):
        spool.append(RecordKind.EVENT, event())
    full = spool.files.current.size_bytes
    write = os.write

    def write_if_it_fits(fd: int, data: bytes) -> int:
        if os.fstat(fd).st_size + len(data) > full:
            raise OSError(errno.ENOSPC, "full")
        return write(fd, data)

    monkeypatch.setattr(os, "write", write_if_it_fits)
    assert not spool.append(RecordKind.EVENT, event())
    assert spool.trouble == f"{spool.directory}: full"
    spool.use_room(9)
    assert not spool.append(RecordKind.EVENT, event())
    spool.use_room(10)
    assert spool.append(RecordKind.EVENT, event("after"))
    assert counts(spool) == {losses.SPOOL_FULL: 2}
    assert texts(spool, after=10) == ["after"]
    kinds = [r.kind for r in scan(next(spool.directory.glob("spool-*")).read_bytes()).records]
    assert kinds == [RecordKind.IDENTITY, RecordKind.LAYOUT, RecordKind.EVENT]


def test_the_end_of_a_full_spool_waits_for_room(
    make: MakeSpool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = make(segment_bytes=2000, quota_bytes=2000)
    while spool.append(RecordKind.EVENT, event()):
        pass
    # A quota is no wall for the last record.
    held = spool.last
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:11]))
    end = encode_payload(End("completed", 1, 1))
    assert not spool.append(RecordKind.END, lambda mono, unix: end)
    monkeypatch.undo()
    assert spool.end_waits is not None
    assert not spool.append(RecordKind.EVENT, event())
    spool.use_room(held)
    assert spool.end_waits is None
    assert spool.last == held + 1
    assert counts(spool) == {losses.SPOOL_QUOTA: 1, losses.CLOSED: 1}


def test_limits_leave_most_of_a_small_file_system_to_others() -> None:
    mib = 1024 * 1024
    assert limits(10_000 * mib) == (8 * mib, 256 * mib)
    assert limits(64 * mib) == (mib, 32 * mib)
    assert limits(2 * mib) == (64 * 1024, mib)
    assert limits(0) == (64 * 1024, 128 * 1024)
