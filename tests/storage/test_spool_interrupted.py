"""The spool under interrupts, signals, threads and damage: one sequence without a hole."""

from __future__ import annotations

import os
import random
import signal
import threading
import time

from made_spools import MakeSpool, counts, event, texts

from unilab_metrics.storage.records import scan
from unilab_metrics.storage.spool_reader import SpoolReader, pass_over_damage
from unilab_schema.codec import RecordKind, decode_payload


def test_an_interrupt_in_the_middle_of_an_append_breaks_no_sequence(make: MakeSpool) -> None:
    spool = make()

    # Another thread of the process may take the signal, and then it is heard too late to be due.
    due = False

    def interrupt(number: int, frame: object) -> None:
        if due:
            raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    chance = random.Random(1)
    interrupted = 0
    try:
        for number in range(3000):
            try:
                due = True
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-6, 60e-6))
                spool.append(RecordKind.EVENT, event("maybe"))
                signal.setitimer(signal.ITIMER_REAL, 0)
                due = False
            except KeyboardInterrupt:
                due = False
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
