"""The shipper over real sockets, against the aggregator's side of the accept rule."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from receiving_end import ReceivingEnd
from spooled import Make, payloads

from unilab_metrics.publish import shipper
from unilab_metrics.publish.publisher import Publisher
from unilab_metrics.storage.records import scan
from unilab_metrics.transport.rendezvous import ConnectionFile
from unilab_schema.codec import RecordKind
from unilab_schema.control import Reject
from unilab_schema.frames import End, IterationFrame


@pytest.fixture
def ends(short_path: Path) -> Iterator[Callable[..., ReceivingEnd]]:
    made: list[ReceivingEnd] = []

    def make(**options: Any) -> ReceivingEnd:
        end = ReceivingEnd(short_path, **options)
        made.append(end)
        return end

    yield make
    for end in made:
        end.close()


def log(publisher: Publisher, first: int, last: int) -> None:
    for iteration in range(first, last + 1):
        publisher.log({"a": float(iteration)}, iteration=iteration)


def iterations(end: ReceivingEnd) -> list[int]:
    return [frame.iteration for frame in end.frames() if isinstance(frame, IterationFrame)]


def close_in_thread(publisher: Publisher, timeout_s: float = 10.0) -> list[bool]:
    result: list[bool] = []
    thread = threading.Thread(target=lambda: result.append(publisher.close(timeout_s)))
    thread.start()
    return result


def test_frames_logged_before_anybody_listens_arrive_in_order(
    make: Make, ends: Callable[..., ReceivingEnd]
) -> None:
    bus: list[ConnectionFile] = []
    publisher = make(find_bus=lambda: bus[0] if bus else None)
    log(publisher, 1, 100)
    end = ends()
    bus.append(end.find_bus())
    end.serve(lambda: end.cursor == publisher._spool.last)
    assert iterations(end) == list(range(1, 101))
    assert (end.hellos[0].first, end.hellos[0].identity) == (1, publisher.identity)
    assert end.duplicates == 0
    assert publisher.errors == []


def test_close_delivers_the_end_and_leaves_no_spool(
    make: Make, ends: Callable[..., ReceivingEnd]
) -> None:
    end = ends()
    publisher = make(find_bus=end.find_bus)
    log(publisher, 1, 5)
    result = close_in_thread(publisher)
    end.serve(lambda: result)
    assert result == [True]
    assert isinstance(end.frames()[-1], End)
    assert publisher.unsent == 0
    assert not Path(publisher.identity.spool_path).exists()


def test_close_waits_until_the_journal_is_on_the_disk(
    make: Make, ends: Callable[..., ReceivingEnd]
) -> None:
    end = ends()
    end.durable_lag = 1
    publisher = make(find_bus=end.find_bus)
    log(publisher, 1, 5)
    result = close_in_thread(publisher)
    end.serve(lambda: end.cursor == 7)
    end.serve_for(0.2)
    assert result == []
    end.durable_lag = 0
    end.serve(lambda: result)
    assert result == [True]


def test_rank_zero_waits_for_the_backends(make: Make, ends: Callable[..., ReceivingEnd]) -> None:
    end = ends()
    publisher = make(find_bus=end.find_bus, wait_for_backends=True)
    log(publisher, 1, 2)
    result = close_in_thread(publisher)
    end.serve(lambda: end.cursor == 4)
    end.serve_for(0.2)
    assert result == []
    end.closed = True
    end.serve(lambda: result)
    assert result == [True]


def test_an_idle_source_pings_with_a_rising_watermark(
    make: Make, ends: Callable[..., ReceivingEnd]
) -> None:
    end = ends()
    publisher = make(find_bus=end.find_bus)
    end.serve(lambda: end.pings >= 4)
    marks = [batch.watermark_mono_ns for batch in end.batches]
    assert marks == sorted(marks)
    assert time.monotonic_ns() - marks[-1] < 1_000_000_000
    pings = end.pings
    end.serve(lambda: end.pings >= pings + 5)
    # As they were sent: on a busy machine several are taken at once.
    marks = [batch.watermark_mono_ns for batch in end.batches]
    assert marks[-1] - marks[-6] > 350_000_000
    log(publisher, 1, 1)
    end.serve(lambda: end.cursor == 2)
    frame = end.frames()[0]
    carrier = [batch for batch in end.batches if batch.records][-1]
    assert frame.mono_ns < carrier.watermark_mono_ns


def test_a_watermark_never_passes_an_unsent_frame(
    make: Make, ends: Callable[..., ReceivingEnd]
) -> None:
    end = ends()
    end.window = 3
    publisher = make(find_bus=end.find_bus)
    log(publisher, 1, 30)
    end.serve(lambda: end.cursor == 31)
    stamps = {sequence: p.mono_ns for sequence, _, p in end.payloads if sequence > 1}
    sent = 0
    for batch in end.batches:
        sent += _count(batch.records)
        unsent = [stamp for sequence, stamp in stamps.items() if sequence > sent]
        if unsent:
            assert batch.watermark_mono_ns <= min(unsent)
    assert max(_count(batch.records) for batch in end.batches) <= 512


def _count(records: bytes) -> int:
    return len(scan(records).records)


def test_a_slow_aggregator_is_sent_no_more_than_the_window(
    make: Make, ends: Callable[..., ReceivingEnd]
) -> None:
    end = ends()
    publisher = make(find_bus=end.find_bus)
    end.serve(lambda: end.hellos)
    end.mute = True
    log(publisher, 1, 2000)
    end.serve(lambda: end.cursor >= 512)
    end.serve_for(0.3)
    assert end.cursor == 512
    end.mute = False
    end.serve(lambda: end.cursor == 2001)
    assert iterations(end) == list(range(1, 2001))


def test_a_lost_batch_is_asked_for_again(make: Make, ends: Callable[..., ReceivingEnd]) -> None:
    end = ends()
    publisher = make(find_bus=end.find_bus)
    log(publisher, 1, 10)
    end.serve(lambda: end.cursor == 11)
    end.swallow = 1
    # One frame at a time: of two, each may come in a batch of its own, and ask for its own rewind.
    log(publisher, 11, 11)
    end.serve(lambda: not end.swallow)
    log(publisher, 12, 12)
    end.serve(lambda: end.cursor == 13)
    assert end.rewinds == 1
    assert iterations(end) == list(range(1, 13))


def test_a_lost_last_batch_is_sent_again(
    make: Make, ends: Callable[..., ReceivingEnd], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unilab_metrics.publish.delivery.RESEND_AFTER_NS", 300_000_000)
    end = ends()
    publisher = make(find_bus=end.find_bus)
    log(publisher, 1, 10)
    end.serve(lambda: end.cursor == 11)
    end.swallow = 1
    log(publisher, 11, 11)
    end.serve(lambda: end.cursor == 12)
    assert (end.rewinds, end.duplicates) == (0, 0)
    assert iterations(end) == list(range(1, 12))


def test_a_restarted_aggregator_gets_what_it_does_not_have(
    make: Make, ends: Callable[..., ReceivingEnd]
) -> None:
    end = ends()
    publisher = make(find_bus=end.find_bus)
    log(publisher, 1, 20)
    end.serve(lambda: end.cursor == 21)
    end.close()
    log(publisher, 21, 30)
    again = ends(counter=2, cursor=11)
    again.serve(lambda: again.cursor == publisher._spool.last)
    assert iterations(again) == list(range(11, 31))
    assert len(again.hellos) == 1


def test_an_aggregator_that_has_moved_is_found(
    make: Make, ends: Callable[..., ReceivingEnd]
) -> None:
    end = ends()
    current = end

    def find_bus() -> ConnectionFile:
        return current.find_bus()

    publisher = make(find_bus=find_bus)
    log(publisher, 1, 5)
    end.serve(lambda: end.cursor == 6)
    end.close()
    again = ends(counter=2, cursor=6, name="elsewhere")
    current = again
    log(publisher, 6, 8)
    again.serve(lambda: again.cursor == 9)
    assert iterations(again) == [6, 7, 8]


def test_without_an_answer_for_long_the_socket_is_made_anew(
    make: Make, ends: Callable[..., ReceivingEnd], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unilab_metrics.publish.connection.SILENT_AFTER_NS", 1_200_000_000)
    end = ends()
    end.mute = True
    publisher = make(find_bus=end.find_bus)
    log(publisher, 1, 3)
    end.serve(lambda: len(end.hellos) >= 3)
    end.mute = False
    end.serve(lambda: end.cursor == 4)
    assert iterations(end) == [1, 2, 3]


def test_a_refusal_for_now_is_asked_again(make: Make, ends: Callable[..., ReceivingEnd]) -> None:
    end = ends()
    end.reject = Reject("held", "waiting for rank 0", retry_after_s=0.1)
    publisher = make(find_bus=end.find_bus)
    log(publisher, 1, 3)
    end.serve(lambda: len(end.hellos) >= 3)
    end.reject = None
    end.serve(lambda: end.cursor == 4)
    assert iterations(end) == [1, 2, 3]


def test_a_final_refusal_ends_the_sending_but_not_the_training(
    make: Make, ends: Callable[..., ReceivingEnd]
) -> None:
    end = ends()
    end.reject = Reject("version", "too new", final=True)
    publisher = make(find_bus=end.find_bus)
    log(publisher, 1, 3)
    end.serve(lambda: end.hellos)
    end.serve_for(0.2)
    log(publisher, 4, 5)
    started = time.monotonic()
    assert not publisher.close(10)
    assert time.monotonic() - started < 2
    assert len(end.hellos) == 1
    assert any("version: too new" in text for text in publisher.errors)
    assert len(payloads(Path(publisher.identity.spool_path))) == 7


def test_damage_in_the_spool_costs_the_damaged_record_only(
    make: Make, ends: Callable[..., ReceivingEnd]
) -> None:
    bus: list[ConnectionFile] = []
    publisher = make(find_bus=lambda: bus[0] if bus else None)
    log(publisher, 1, 10)
    segment = Path(publisher.identity.spool_path) / "spool-000001-000001"
    with segment.open("r+b") as file:
        damaged = [r for r in scan(file.read()).records if r.sequence in (1, 5)]
        for record in damaged:
            file.seek(record.end - 1)
            file.write(b"\xff")
    end = ends()
    bus.append(end.find_bus())
    end.serve(lambda: end.cursor == 11)
    assert iterations(end) == [1, 2, 3, 5, 6, 7, 8, 9, 10]
    gaps = [(p.first, p.last) for _, kind, p in end.payloads if kind == RecordKind.GAP]
    assert gaps == [(1, 1), (5, 5)]
    # The layout of the gap comes again, so that no later frame is lost with it.
    assert end.values()[0] == {"a": 1.0}


def test_segments_go_once_they_are_durable(
    make: Make, ends: Callable[..., ReceivingEnd], monkeypatch: pytest.MonkeyPatch
) -> None:
    end = ends()
    end.durable_lag = 10**6
    publisher = make(find_bus=end.find_bus)
    files = publisher._spool.files
    files._rotate_at = files._segment_bytes = files.room_until = 2000
    log(publisher, 1, 100)
    end.serve(lambda: end.cursor == 101)
    directory = Path(publisher.identity.spool_path)
    before = len(list(directory.glob("spool-*")))
    assert before > 3
    end.durable_lag = 0
    end.serve(lambda: len(list(directory.glob("spool-*"))) == 1)


def test_drops_travel_with_batches_and_in_the_spool(
    make: Make, ends: Callable[..., ReceivingEnd]
) -> None:
    end = ends()
    publisher = make(find_bus=end.find_bus)
    publisher.log({"a": "bad", "b": 1.0}, iteration=1)
    end.serve(lambda: any(kind == RecordKind.DROPS for _, kind, _ in end.payloads))
    assert end.batches[-1].drops == {"bad_value": 1}
    (drops,) = [p for _, kind, p in end.payloads if kind == RecordKind.DROPS]
    assert drops.counts == {"bad_value": 1}


def test_the_supervisor_is_called_about_once_a_second_and_its_failures_are_survived(
    make: Make, ends: Callable[..., ReceivingEnd], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipper, "_BEGINNING_NS", 0)
    end = ends()
    calls: list[float] = []

    def supervise(*, hurry: bool, heard: object) -> str:
        calls.append(time.monotonic())
        raise OSError("no aggregator today")

    publisher = make(find_bus=end.find_bus, supervise=supervise)
    log(publisher, 1, 3)
    end.serve(lambda: len(calls) >= 3 and end.cursor == 4)
    # Two seconds apart; on a busy machine the first of them may come late.
    assert calls[2] - calls[0] > 0.9
    assert any("no aggregator today" in text for text in publisher.errors)
    assert publisher.dropped == {}


def test_garbage_from_the_aggregator_is_noted_and_passed_over(
    make: Make, ends: Callable[..., ReceivingEnd]
) -> None:
    end = ends()
    publisher = make(find_bus=end.find_bus)
    original = end._take

    def take(peer: bytes, data: bytes) -> None:
        end._socket.send_multipart([peer, b"\xc1garbage"])
        original(peer, data)

    end._take = take  # type: ignore[method-assign]
    log(publisher, 1, 3)
    end.serve(lambda: end.cursor == 4)
    assert iterations(end) == [1, 2, 3]
    assert any("FrameDecodeError" in text for text in publisher.errors)


def test_a_lone_frame_is_on_its_way_at_once_and_a_stream_in_batches(
    make: Make, ends: Callable[..., ReceivingEnd], monkeypatch: pytest.MonkeyPatch
) -> None:
    end = ends()
    publisher = make(find_bus=end.find_bus)
    end.serve(lambda: end.pings >= 2)
    # So long that a frame which waits for the next ping is told from a machine that is busy.
    monkeypatch.setattr(shipper, "PING_INTERVAL_NS", 2_000_000_000)
    delays: list[float] = []
    for number in range(1, 6):
        end.serve_for(0.12)
        started = time.monotonic()
        log(publisher, number, number)
        end.serve(lambda number=number: iterations(end)[-1:] == [number])
        delays.append(time.monotonic() - started)
    assert sorted(delays)[2] < 0.5
    carried = sum(bool(batch.records) for batch in end.batches)
    feeding = threading.Thread(
        target=lambda: [(log(publisher, n, n), time.sleep(0.002)) for n in range(6, 106)]
    )
    started = time.monotonic()
    feeding.start()
    end.serve(lambda: iterations(end)[-1] == 105)
    took_ns = (time.monotonic() - started) * 1e9
    feeding.join()
    carried = sum(bool(batch.records) for batch in end.batches) - carried
    # On a busy machine the stream is slower, and has more of them.
    assert carried < 10 + took_ns / shipper.SHIP_INTERVAL_NS
