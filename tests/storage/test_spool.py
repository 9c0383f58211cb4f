"""The spool: one sequence without a hole, whatever interrupts, fails or reads along."""

from __future__ import annotations

import errno
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from unilab_metrics.publish import losses
from unilab_metrics.publish.losses import Losses
from unilab_metrics.publish.spool import Spool
from unilab_metrics.publish.spool_files import limits
from unilab_metrics.storage import lease
from unilab_metrics.storage.records import scan
from unilab_metrics.storage.spool_reader import SpoolReader, pass_over_damage
from unilab_schema.codec import RecordKind, decode_payload, encode_payload
from unilab_schema.frames import End, EventFrame, Layout
from unilab_schema.identity import Identity, SourceKey


def identity() -> Identity:
    return Identity(SourceKey(0, "learner"), b"i" * 16, 1, "host", "boot", "", "", 0, 0)


def event(text: str = "x" * 100) -> Callable[[int, int], bytes]:
    return lambda mono, unix: encode_payload(EventFrame("status", text, mono, unix))


def layout(number: int) -> Callable[[int, int], bytes]:
    return lambda mono, unix: encode_payload(Layout(number, (f"tag{number}",)))


MakeSpool = Callable[..., Spool]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[MakeSpool]:
    made: list[Spool] = []

    def make(**limits: int) -> Spool:
        spool = Spool(tmp_path / f"spool{len(made)}", identity(), Losses(), **limits)
        made.append(spool)
        return spool

    yield make
    for spool in made:
        spool.close(remove=False)


def counts(spool: Spool) -> dict[str, int]:
    return spool.losses.counts


def sequences(spool: Spool) -> list[int]:
    found: list[int] = []
    while not found or found[-1] < spool.last:
        batch = spool.files.take(found[-1] if found else 0, spool.last, 10**6)
        found += [record.sequence for record in scan(batch.records).records]
    return found


def texts(spool: Spool, after: int = 0) -> list[str]:
    reader = SpoolReader(spool.directory)
    return [
        decode_payload(record.kind, record.payload).text
        for batch in reader.batches(after)
        for record in scan(batch.records).records
        if record.kind == RecordKind.EVENT
    ]


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


def test_an_interrupt_in_the_middle_of_an_append_breaks_no_sequence(make: MakeSpool) -> None:
    spool = make()

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    chance = random.Random(1)
    interrupted = 0
    try:
        for number in range(3000):
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-6, 60e-6))
                spool.append(RecordKind.EVENT, event("maybe"))
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupted += 1
            if not number % 10:
                spool.append(RecordKind.EVENT, event(f"good {number}"))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    # The record of an interrupted call may be whole, which the next call finds out.
    spool.append(RecordKind.EVENT, event("good 3000"))
    records = [r for b in SpoolReader(spool.directory).batches() for r in scan(b.records).records]
    assert [r.sequence for r in records] == list(range(1, spool.last + 1))
    assert [t for t in texts(spool) if t != "maybe"] == [f"good {n}" for n in range(0, 3001, 10)]
    assert not spool.inside
    assert interrupted > 30


def test_a_signal_handler_that_logs_leaves_its_record_to_the_call_it_interrupted(
    make: MakeSpool,
) -> None:
    spool = make()
    handled = 0

    def handler(number: int, frame: object) -> None:
        nonlocal handled
        handled += 1
        spool.append(RecordKind.EVENT, event("handler"))

    def interrupted(mono: int, unix: int) -> bytes:
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0)
        return event("outer")(mono, unix)

    previous = signal.signal(signal.SIGUSR1, handler)
    try:
        assert spool.append(RecordKind.EVENT, interrupted)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        deadline = time.monotonic() + 0.5
        plain = 0
        while time.monotonic() < deadline:
            spool.append(RecordKind.EVENT, event("plain"))
            plain += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGUSR1, previous)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    found = texts(spool)
    assert found[:2] == ["outer", "handler"]
    assert found.count("plain") == plain
    assert found.count("handler") == handled > 10
    assert counts(spool) == {}


def test_threads_share_one_sequence_and_stamps_never_fall(make: MakeSpool) -> None:
    spool = make(segment_bytes=20_000)

    def work(name: int) -> None:
        for number in range(200):
            spool.append(RecordKind.EVENT, event(f"{name}.{number}"))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    frames = [
        (record.sequence, decode_payload(record.kind, record.payload))
        for batch in SpoolReader(spool.directory).batches()
        for record in scan(batch.records).records
    ]
    assert [sequence for sequence, _ in frames] == list(range(1, 801))
    stamps = [frame.mono_ns for _, frame in frames]
    assert stamps == sorted(stamps)
    for name in range(4):
        mine = [f.text for _, f in frames if f.text.startswith(f"{name}.")]
        assert mine == [f"{name}.{n}" for n in range(200)]


def test_the_watermark_is_the_stamp_of_the_first_unsent_frame(make: MakeSpool) -> None:
    spool = make()
    assert spool.sent_before_ns(0, 50, 0) == 50
    for _ in range(3):
        spool.append(RecordKind.EVENT, event())
    stamps = [
        decode_payload(r.kind, r.payload).mono_ns
        for r in scan(spool.files.take(0, 3, 10**6).records).records
        if r.sequence
    ]
    now = time.monotonic_ns()
    assert spool.sent_before_ns(0, now, 0) == stamps[0]
    assert spool.sent_before_ns(2, now, 0) == stamps[2]
    assert spool.sent_before_ns(3, now, 0) == now
    spool.inside.add(-1)
    assert spool.sent_before_ns(3, now, 7) == 7
    spool.inside.clear()


def test_damage_in_the_middle_is_passed_over_with_a_gap(make: MakeSpool) -> None:
    spool = make()
    for number in range(10):
        spool.append(RecordKind.EVENT, event(str(number)))
    data = bytearray(spool.files.take(0, 10, 10**6).records)
    spans = [(r.sequence, r.end) for r in scan(bytes(data)).records]
    for sequence, end in spans:
        if sequence in (4, 5, 9):
            data[end - 1] ^= 0xFF
    repaired = scan(pass_over_damage(bytes(data), 0, 10))
    assert not repaired.damaged
    found = [(r.kind, r.sequence) for r in repaired.records]
    assert (RecordKind.GAP, 5) in found
    assert (RecordKind.GAP, 9) in found
    assert [s for _, s in found] == [1, 2, 3, 5, 6, 7, 8, 9, 10]
    gap = next(r for r in repaired.records if r.sequence == 5)
    decoded = decode_payload(gap.kind, gap.payload)
    assert (decoded.first, decoded.last) == (4, 5)


def test_a_flipped_byte_on_the_disk_is_found_when_asked_to_verify(make: MakeSpool) -> None:
    spool = make()
    for number in range(3):
        spool.append(RecordKind.EVENT, event(str(number)))
    path = spool.directory / "spool-000001-000001"
    with path.open("r+b") as file:
        end = scan(file.read()).records[2].end
        file.seek(end - 1)
        file.write(b"\xff")
    assert [r.sequence for r in scan(spool.files.take(0, 3, 10**6).records).records] == [1, 3]
    assert not scan(spool.files.take(0, 1, 10**6).records).damaged
    verified = scan(spool.files.take(0, 3, 10**6, verify=True).records).records
    assert [(r.kind, r.sequence) for r in verified] == [
        (RecordKind.EVENT, 1),
        (RecordKind.GAP, 2),
        (RecordKind.EVENT, 3),
    ]


def test_a_leftover_with_a_torn_tail_and_a_missing_segment_is_read_to_the_end(
    make: MakeSpool,
) -> None:
    spool = make(segment_bytes=1000)
    for number in range(40):
        spool.append(RecordKind.EVENT, event(str(number) * 50))
    spool.close(remove=False)
    segments = sorted(spool.directory.glob("spool-*"))
    segments[1].unlink()
    whole = segments[-1].read_bytes()
    segments[-1].write_bytes(whole + whole[: scan(whole).records[0].end - 3])
    reader = SpoolReader(spool.directory)
    batches = list(reader.batches(3, max_bytes=500))
    records = [r for b in batches for r in scan(b.records).records if r.sequence]
    (gap,) = [r for r in records if r.kind == RecordKind.GAP]
    covered = decode_payload(gap.kind, gap.payload)
    assert covered.first <= covered.last
    assert records[-1].sequence == batches[-1].last == reader.last() == 40
    assert len(records) - 1 + covered.last - covered.first + 1 == 37


def test_cut_at_every_byte_of_the_last_record_nothing_else_is_lost(make: MakeSpool) -> None:
    spool = make()
    spool.append(RecordKind.EVENT, event("first"))
    spool.append(RecordKind.EVENT, event("second"))
    spool.close(remove=False)
    path = spool.directory / "spool-000001-000001"
    whole = path.read_bytes()
    start = scan(whole).records[-1].start
    for size in range(start, len(whole)):
        path.write_bytes(whole[:size])
        assert texts(spool) == ["first"]
    path.write_bytes(whole[:3])
    assert SpoolReader(spool.directory).identity is None
    assert list(SpoolReader(spool.directory).batches()) == []
