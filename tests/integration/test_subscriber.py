"""A subscriber joins late, misses nothing, and outlives the aggregators that it talks to.

The aggregator here is a small stand-in that speaks the protocol over the real sockets.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_aggregator import TAGS, FakeAggregator
from real_runs import fastest_s

from unilab_metrics.errors import (
    ConnectionFileError,
    EndpointError,
    ExitCode,
    RunNotFoundError,
)
from unilab_metrics.storage.filesystem import private_directory
from unilab_metrics.subscribe import fetching as fetching_module
from unilab_metrics.subscribe import line as line_module
from unilab_metrics.subscribe.asking import NoAnswer
from unilab_metrics.subscribe.history import HistoryRecord
from unilab_metrics.subscribe.subscriber import Subscriber
from unilab_metrics.transport import rendezvous

Start = Callable[..., FakeAggregator]
Attach = Callable[..., Subscriber]


@pytest.fixture
def start(run_dir: Path, short_path: Path) -> Iterator[Start]:
    started: list[FakeAggregator] = []

    def start(**options: object) -> FakeAggregator:
        started.append(FakeAggregator(run_dir, short_path, **options))  # type: ignore[arg-type]
        return started[-1]

    yield start
    for aggregator in started:
        aggregator.stop()


@pytest.fixture
def attach(run_dir: Path) -> Iterator[Attach]:
    attached: list[Subscriber] = []

    def attach(**options: int) -> Subscriber:
        attached.append(Subscriber.attach(run_dir, **options))
        return attached[-1]

    yield attach
    for subscriber in attached:
        subscriber.close()


def collect(
    subscriber: Subscriber, until: Callable[[list[HistoryRecord]], bool], timeout_s: float = 15.0
) -> list[HistoryRecord]:
    """Polls until the condition holds."""
    records: list[HistoryRecord] = []
    deadline_s = time.monotonic() + timeout_s
    while not until(records):
        assert time.monotonic() < deadline_s, [r.sequence for r in records][-5:]
        records += subscriber.poll(50)
    return records


def sequences(records: list[HistoryRecord]) -> list[int]:
    return [record.sequence for record in records]


def reached(last: int) -> Callable[[list[HistoryRecord]], bool]:
    return lambda records: bool(records) and records[-1].sequence >= last


def test_a_late_joiner_sees_every_tag_within_a_second(start: Start, attach: Attach):
    aggregator = start()
    aggregator.commit(60)
    started_s = time.monotonic()
    subscriber = attach()
    records = collect(subscriber, lambda r: reached(60)(r) and subscriber.snapshot() is not None)
    assert time.monotonic() - started_s < 1.0
    assert sequences(records) == list(range(1, 61))
    snapshot = subscriber.snapshot()
    assert snapshot is not None
    assert snapshot.tags == TAGS
    assert records[-1].tags == TAGS
    assert records[-1].values().tolist() == [0.0, 60.0]
    assert subscriber.connected


def test_only_the_recent_entries_come_by_default_and_all_on_request(start: Start, attach: Attach):
    start().commit(120)
    assert sequences(collect(attach(recent=30), reached(120))) == list(range(91, 121))
    assert sequences(collect(attach(after=0), reached(120))) == list(range(1, 121))
    assert sequences(collect(attach(after=118), reached(120))) == [119, 120]


def test_a_run_without_updates_yet_is_followed_from_its_first(start: Start, attach: Attach):
    aggregator = start()
    subscriber = attach()
    collect(subscriber, lambda _: subscriber.head is not None)
    assert subscriber.poll(0) == []
    assert subscriber.data_age_s is None
    aggregator.commit()
    assert sequences(collect(subscriber, reached(1))) == [1]


def test_every_entry_comes_once_while_the_run_goes_on(start: Start, attach: Attach):
    aggregator = start()
    subscriber = attach()
    seen: list[HistoryRecord] = []
    for count in (1, 7, 200, 1, 3):
        aggregator.commit(count)
        total = len(aggregator.records)
        seen += collect(subscriber, reached(total))
    assert sequences(seen) == list(range(1, 213))
    assert (subscriber.lost_entries, subscriber.damaged, subscriber.cursor) == (0, 0, 212)


def test_lost_answers_are_asked_for_again(
    start: Start, attach: Attach, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(fetching_module, "REPLY_TIMEOUT_S", 0.1)
    aggregator = start()
    aggregator.commit(5)
    aggregator.swallow = 4
    subscriber = attach()
    records = collect(subscriber, lambda r: reached(5)(r) and subscriber.snapshot() is not None)
    assert sequences(records) == [1, 2, 3, 4, 5]


def test_an_older_aggregator_is_not_asked_for_its_ranks(start: Start, attach: Attach):
    start().commit(5)
    subscriber = attach()
    early = subscriber.ranks(("Loss/actor",))
    assert isinstance(early, NoAnswer)
    assert "only a live run" in early.text
    collect(subscriber, reached(5))
    answer = subscriber.ranks(("Loss/actor",))
    assert isinstance(answer, NoAnswer)
    assert "older than this viewer" in answer.text
    # A request that it does not know would end the stand-in's thread.
    start_s = time.monotonic()
    while time.monotonic() - start_s < 0.5:
        subscriber.poll(50)
    assert subscriber.connected


def test_answers_that_take_too_long_are_asked_for_in_smaller_parts(
    start: Start, attach: Attach, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(fetching_module, "REPLY_TIMEOUT_S", 0.1)
    aggregator = start()
    aggregator.commit(500)
    aggregator.slow_above = 40
    records = collect(attach(), reached(500))
    assert sequences(records) == list(range(1, 501))


def test_a_restarted_aggregator_is_found_and_the_cursor_kept(
    start: Start, attach: Attach, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(line_module, "SILENT_S", 0.5)
    first = start()
    first.commit(10)
    subscriber = attach()
    assert sequences(collect(subscriber, reached(10))) == list(range(1, 11))
    first.stop()
    collect(subscriber, lambda _: not subscriber.connected)
    second = start(counter=2, records=first.records)
    second.commit(5)
    assert sequences(collect(subscriber, reached(15))) == [11, 12, 13, 14, 15]
    assert subscriber.connected
    assert subscriber.head is not None
    assert subscriber.head.epoch.counter == 2
    assert min(second.fetches) == 10


def test_entries_that_were_lost_with_the_node_are_replaced(
    start: Start, attach: Attach, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(line_module, "SILENT_S", 0.5)
    first = start()
    first.commit(10)
    subscriber = attach()
    collect(subscriber, reached(10))
    first.stop()
    second = start(counter=2, records=first.records[:8])
    collect(
        subscriber, lambda _: subscriber.head is not None and subscriber.head.epoch.counter == 2
    )
    second.commit(3, marker=2.0)
    records = collect(subscriber, reached(11))
    assert [(r.sequence, r.values()[0]) for r in records] == [(9, 2.0), (10, 2.0), (11, 2.0)]


def test_another_journal_in_the_same_directory_starts_over(
    start: Start, attach: Attach, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(line_module, "SILENT_S", 0.5)
    first = start()
    first.commit(10)
    subscriber = attach()
    collect(subscriber, lambda r: reached(10)(r) and subscriber.snapshot() is not None)
    first.stop()
    second = start(counter=1, journal=b"k" * 16)
    second.commit(2, marker=3.0)
    records = collect(subscriber, reached(2))
    assert [(r.sequence, r.values()[0]) for r in records] == [(1, 3.0), (2, 3.0)]


def test_a_stopped_aggregator_is_waited_for(
    start: Start, attach: Attach, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(line_module, "SILENT_S", 0.5)
    aggregator = start()
    aggregator.commit(3)
    subscriber = attach()
    collect(subscriber, reached(3))
    aggregator.mute()
    collect(subscriber, lambda _: not subscriber.connected)
    aggregator.commit(2)
    assert subscriber.poll(100) == []
    aggregator.unmute()
    assert sequences(collect(subscriber, reached(5))) == [4, 5]
    assert subscriber.connected


def test_the_rest_of_an_ended_run_comes_from_its_files(start: Start, attach: Attach):
    aggregator = start(writes_files=True)
    aggregator.commit(3)
    subscriber = attach()
    collect(subscriber, reached(3))
    aggregator.mute()
    aggregator.commit(4)
    aggregator.stop()
    assert sequences(collect(subscriber, reached(7))) == [4, 5, 6, 7]
    assert not subscriber.connected
    assert subscriber.lost_entries == 0


def test_the_last_announcement_of_an_aggregator_that_is_gone_is_heard(
    start: Start, attach: Attach, run_dir: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(line_module, "SEARCH_S", 0.0)
    aggregator = start(writes_files=True)
    aggregator.commit(5)
    subscriber = attach(after=0)
    collect(subscriber, reached(5))
    aggregator.end("failed")
    collect(subscriber, lambda _: subscriber.head is not None and subscriber.head.ended == "failed")
    # The last word and the departure come between two looks.
    aggregator.end("completed")
    deadline_s = time.monotonic() + 10
    while aggregator.announced_end != "completed":
        assert time.monotonic() < deadline_s
        time.sleep(0.002)
    aggregator.stop()
    (rendezvous.bus_directory(run_dir) / rendezvous.CONNECTION_FILE).unlink()
    subscriber.poll(0)
    assert subscriber.head is not None
    assert subscriber.head.ended == "completed"


def test_an_ended_run_is_read_from_its_files_alone(start: Start, attach: Attach, run_dir: Path):
    aggregator = start(writes_files=True)
    aggregator.commit(1500)
    aggregator.stop()
    for file_there in (True, False):
        if not file_there:
            rendezvous.remove(rendezvous.bus_directory(run_dir))
        subscriber = attach()
        assert sequences(collect(subscriber, reached(1500))) == list(range(1, 1501))
        assert subscriber.head is None
        assert not subscriber.connected
        assert subscriber.data_age_s is not None
        assert subscriber.data_age_s < 60


def test_a_run_that_starts_again_after_its_end_is_followed(start: Start, attach: Attach):
    first = start(writes_files=True)
    first.commit(2)
    first.stop()
    subscriber = attach()
    assert sequences(collect(subscriber, reached(2))) == [1, 2]
    second = start(counter=2, records=first.records)
    second.commit(2)
    assert sequences(collect(subscriber, reached(4))) == [3, 4]
    assert subscriber.connected


def test_the_age_of_data_grows_from_the_newest_update(start: Start, attach: Attach):
    aggregator = start()
    aggregator.commit()
    subscriber = attach()
    collect(subscriber, reached(1))
    deadline_s = time.monotonic() + 10
    while (subscriber.data_age_s or 0.0) < 1.0:
        assert time.monotonic() < deadline_s
        subscriber.poll(100)
    before_s = time.monotonic()
    aggregator.commit()
    collect(subscriber, reached(2))
    assert subscriber.data_age_s is not None
    # However long the machine takes: no older than the update is, as its clock and ours go.
    assert subscriber.data_age_s < time.monotonic() - before_s + 0.05


def test_a_poll_without_news_takes_its_time_and_no_more(start: Start, attach: Attach):
    start()
    subscriber = attach()
    collect(subscriber, lambda _: subscriber.head is not None)
    for timeout_ms in (0, 120):
        wait_s = timeout_ms / 1000

        def took_s(timeout_ms: int = timeout_ms) -> float:
            started_s = time.monotonic()
            assert subscriber.poll(timeout_ms) == []
            return time.monotonic() - started_s

        assert wait_s <= fastest_s(took_s, wait_s + 0.5, tries=3) < wait_s + 0.5


def test_an_aggregator_of_another_protocol_version_is_named(start: Start, attach: Attach):
    aggregator = start()
    aggregator.protocol_byte = 2
    subscriber = attach()
    with pytest.raises(EndpointError, match="protocol version 2"):
        collect(subscriber, lambda _: False)


def test_what_is_no_run_is_refused(run_dir: Path):
    with pytest.raises(RunNotFoundError) as caught:
        Subscriber.attach(run_dir)
    assert caught.value.exit_code == ExitCode.RUN_NOT_FOUND
    bus = private_directory(rendezvous.bus_directory(run_dir))
    with pytest.raises(ConnectionFileError) as missing:
        Subscriber.attach(run_dir)
    assert missing.value.exit_code == ExitCode.NO_LIVE_RUN
    bus.chmod(0o755)
    with pytest.raises(ConnectionFileError) as unsafe:
        Subscriber.attach(run_dir)
    assert unsafe.value.exit_code == ExitCode.REFUSED


def test_closing_is_quick_and_can_be_repeated(start: Start, run_dir: Path):
    start().mute()

    def took_s() -> float:
        with Subscriber.attach(run_dir) as subscriber:
            subscriber.poll(50)
            started_s = time.monotonic()
            subscriber.close()
        subscriber.close()
        return time.monotonic() - started_s

    assert fastest_s(took_s, 1.0, tries=3) < 1
