"""The feed's thread: order, bounds, failures, and that it ends."""

from __future__ import annotations

import threading
import time

import msgspec
import pytest
from sample_run import FakeSource, SampleRun, whole_run

from unilab_metrics.errors import ConnectionFileError, KeyRefusedError
from unilab_metrics.subscribe.history import HistoryRecord
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.feeding.feed import BOX_BATCHES, FAR_ENTRIES, Feed
from unilab_sidecar.feeding.questions import RanksQuestion
from unilab_sidecar.feeding.summary import Summary
from unilab_sidecar.printed.plain import format_line, run_plain
from unilab_sidecar.series import Series


class Endless(FakeSource):
    """Has another record at every poll, at once."""

    def __init__(self) -> None:
        super().__init__()
        self.polls = 0

    def poll(self, timeout_ms: int) -> list[HistoryRecord]:
        self.polls += 1
        return [HistoryRecord(self.polls, SampleRun().update().entry, ())]


def running(feed: Feed) -> threading.Thread:
    thread = threading.Thread(target=feed.run)
    thread.start()
    return thread


def until(feed: Feed, count: int) -> list[Batch]:
    batches: list[Batch] = []
    deadline_s = time.monotonic() + 10
    while len(batches) < count and time.monotonic() < deadline_s:
        batches += feed.wait(0.2)
    return batches


def test_records_arrive_in_order_and_the_source_is_closed():
    source = FakeSource()
    feed = Feed(lambda: source, wait_for_bus=False)
    thread = running(feed)
    batches = until(feed, 5)
    feed.stop()
    thread.join(5)
    sequences = [record.sequence for batch in batches for record in batch.records]
    assert sequences == list(range(1, len(sequences) + 1))
    assert source.closed
    assert not thread.is_alive()


def test_a_viewer_that_is_stopped_stops_the_polling():
    source = Endless()
    feed = Feed(lambda: source, wait_for_bus=False)
    thread = running(feed)
    deadline_s = time.monotonic() + 10
    while source.polls < BOX_BATCHES and time.monotonic() < deadline_s:
        time.sleep(0.02)
    time.sleep(0.3)
    assert BOX_BATCHES <= source.polls <= BOX_BATCHES + 1
    sequences = [record.sequence for batch in feed.take() for record in batch.records]
    assert sequences == list(range(1, BOX_BATCHES + 1))
    feed.stop()
    thread.join(5)
    assert not thread.is_alive()


def test_silence_still_gives_signs_of_life():
    source = FakeSource(end_after=0)
    feed = Feed(lambda: source, wait_for_bus=False)
    thread = running(feed)
    batches = until(feed, 4)
    feed.stop()
    thread.join(5)
    quiet = [batch for batch in batches if not batch.records]
    assert quiet
    ages = [batch.head_age_s for batch in quiet]
    assert ages == sorted(ages)


class Ahead(Endless):
    """The run is so many entries further than what has been read."""

    def __init__(self, entries: int) -> None:
        super().__init__()
        self._entries = entries

    def poll(self, timeout_ms: int) -> list[HistoryRecord]:
        records = super().poll(timeout_ms)
        assert self.head is not None
        self.head = msgspec.structs.replace(self.head, update=self.polls + self._entries)
        return records


def test_who_is_up_to_date_rests_until_something_is_asked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("unilab_sidecar.feeding.feed.REST_S", 30.0)
    source = Ahead(0)
    feed = Feed(lambda: source, wait_for_bus=False)
    thread = running(feed)
    (first,) = until(feed, 1)
    assert not first.far
    assert feed.wait(0.3) == []
    assert source.polls == 1
    feed.ask(RanksQuestion())
    assert any(batch.answers for batch in until(feed, 1))
    feed.stop()
    thread.join(5)
    assert not thread.is_alive()


def test_who_is_far_behind_does_not_rest(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("unilab_sidecar.feeding.feed.REST_S", 30.0)
    feed = Feed(lambda: Ahead(FAR_ENTRIES + 1), wait_for_bus=False)
    thread = running(feed)
    batches = until(feed, 30)
    assert len(batches) >= 30
    assert all(batch.far for batch in batches if batch.records)
    feed.stop()
    thread.join(5)
    assert not thread.is_alive()


class Still(FakeSource):
    """The same announcement for ever; a poll takes as long as if we had been stopped in it."""

    def poll(self, timeout_ms: int) -> list[HistoryRecord]:
        time.sleep(0.3)
        return []


@pytest.mark.parametrize("own_pause_s", [0.2, 10.0])
def test_a_stop_of_the_viewer_is_no_silence_of_the_aggregator(
    own_pause_s: float, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("unilab_sidecar.feeding.feed.OWN_PAUSE_S", own_pause_s)
    feed = Feed(Still, wait_for_bus=False)
    thread = running(feed)
    batches = until(feed, 3)
    feed.stop()
    thread.join(5)
    assert (batches[-1].head_age_s > 0.25) is (own_pause_s > 1.0)


def test_a_run_that_is_not_there_is_a_failure_with_its_exit_code():
    def missing() -> FakeSource:
        raise ConnectionFileError("bus.json", "is missing")

    feed = Feed(missing, wait_for_bus=False)
    feed.run()
    (batch,) = feed.take()
    assert batch.failure is not None
    assert batch.failure.exit_code == 4


def test_a_launched_viewer_waits_for_its_run():
    tries: list[int] = []

    def later() -> FakeSource:
        tries.append(1)
        if len(tries) < 2:
            raise ConnectionFileError("bus.json", "is missing")
        return FakeSource()

    feed = Feed(later, wait_for_bus=True)
    thread = running(feed)
    assert until(feed, 1)
    feed.stop()
    thread.join(5)
    assert len(tries) == 2


@pytest.mark.parametrize("tells_waiting", [True, False])
def test_who_waits_for_a_run_says_that_it_was_cut_off_and_of_its_own_one_nothing(
    tells_waiting: bool,
):
    tries: list[int] = []

    def later() -> FakeSource:
        tries.append(1)
        if len(tries) < 2:
            raise ConnectionFileError("bus.json", "is missing")
        return FakeSource()

    feed = Feed(
        later,
        wait_for_bus=True,
        tells_waiting=tells_waiting,
        find_abandoned=lambda: ("learner of rank 0",),
        run_dir="runs/a",
    )
    thread = running(feed)
    first = until(feed, 1)[0]
    feed.stop()
    thread.join(5)
    assert len(tries) > 1 or tells_waiting
    assert (first.gone is not None and not first.records) is tells_waiting
    series = Series("runs/a")
    series.add(first)
    line = format_line(series.picture())
    assert ("run cut off, waiting for it to begin again" in line) is tells_waiting
    assert ("gone: learner of rank 0" in line) is tells_waiting


def test_an_unexpected_error_ends_the_viewer_and_not_silently():
    class Broken(FakeSource):
        def poll(self, timeout_ms: int) -> list[HistoryRecord]:
            raise OSError("disk gone")

    feed = Feed(Broken, wait_for_bus=False)
    feed.run()
    (batch,) = feed.take()
    assert batch.failure is not None
    assert "disk gone" in batch.failure.text
    assert batch.failure.exit_code == 1


def test_plain_lines_end_with_the_run():
    feed = Feed(lambda: FakeSource(end_after=4), wait_for_bus=False)
    thread = running(feed)
    lines: list[str] = []
    assert run_plain(feed, lines.append, interval_s=0.2) is None
    feed.stop()
    thread.join(5)
    assert lines[-1].startswith("run ended: completed")
    assert lines[-2].startswith("iter 104/3000  mean reward ")
    for part in ("(peak ", "len ", "steps/s ", "rows/s ", "learning ", "elapsed ", "dropped 0"):
        assert part in lines[-2]
    assert all(line.isascii() and line.isprintable() for line in lines)


class Ended(FakeSource):
    """Gives the files of an ended run in parts, as nobody announces it any more."""

    def __init__(self, status: str = "completed") -> None:
        run, batches = whole_run(60)
        entries = [*(r for batch in batches for r in batch.records), run.end(status)]
        self._parts = [entries[first : first + 7] for first in range(0, len(entries), 7)]
        self.head = None
        self.connected = self.closed = False
        self.refusal = None

    def poll(self, timeout_ms: int) -> list[HistoryRecord]:
        time.sleep(0.002)
        return self._parts.pop(0) if self._parts else []


@pytest.mark.parametrize("once", [True, False])
@pytest.mark.parametrize(("dropped", "said"), [(None, []), (1600, ["dropped 1600"])])
def test_an_ended_run_is_read_whole_before_the_first_line(
    once: bool, dropped: int | None, said: list[str]
):
    asked: list[int] = []

    def read(attempt: int) -> Summary | None:
        asked.append(attempt)
        return None if dropped is None else Summary(dropped)

    feed = Feed(Ended, wait_for_bus=False, read_summary=read)
    thread = running(feed)
    lines: list[str] = []
    run_plain(feed, lines.append, once=once, interval_s=0.0)
    feed.stop()
    thread.join(5)
    assert len(lines) == (1 if once else 2)
    assert lines[0].startswith("iter 60/3000  ")
    assert "run ended: completed" in lines[-1]
    assert [part for part in lines[0].split("  ") if part.startswith("dropped")] == said
    assert asked == [1]


def test_once_gives_one_line_as_soon_as_there_is_an_update():
    feed = Feed(FakeSource, wait_for_bus=False)
    thread = running(feed)
    lines: list[str] = []
    run_plain(feed, lines.append, once=True)
    feed.stop()
    thread.join(5)
    assert len(lines) == 1
    assert lines[0].startswith("iter ")


def test_the_same_iteration_gets_no_second_line_for_ten_seconds(monkeypatch: pytest.MonkeyPatch):
    now_s = [0.0]

    class Stalled(FakeSource):
        """Every poll takes a second, and after the first one nothing comes any more."""

        def poll(self, timeout_ms: int) -> list[HistoryRecord]:
            time.sleep(0.01)
            now_s[0] += 1.0
            self.connected = now_s[0] < 5
            records, self._waiting = self._waiting, []
            return records

    monkeypatch.setattr("unilab_sidecar.feeding.feed.SIGN_OF_LIFE_S", 0.0)
    feed = Feed(Stalled, wait_for_bus=False)
    thread = running(feed)
    said: list[float] = []
    run_plain(
        feed,
        lambda _line: said.append(now_s[0]),
        interval_s=0.0,
        clock_s=lambda: now_s[0],
        stopped=lambda: now_s[0] > 9,
    )
    feed.stop()
    thread.join(5)
    assert len(said) == 1


def test_before_the_first_update_the_line_says_what_is_awaited():
    from unilab_sidecar.picture import Picture, Progress

    assert format_line(Picture()) == "connecting"
    waiting = Picture(stage="waiting", connected=True, progress=Progress(0.5, "warm-up: 1 of 2"))
    assert format_line(waiting) == "waiting for the first update  warm-up: 1 of 2"


def test_a_viewer_whose_launcher_is_gone_ends():
    feed = Feed(FakeSource, wait_for_bus=True, is_wanted=lambda: False)
    feed.run()
    (batch,) = feed.take()
    assert batch.failure is not None
    assert batch.failure.text == "this view ends with the process that has started it"


class TakenOut(FakeSource):
    """Its key is taken out after the first picture."""

    def poll(self, timeout_ms: int) -> list[HistoryRecord]:
        records, self._waiting = self._waiting, []
        if not records:
            time.sleep(timeout_ms / 1000)
            self.connected = False
            self.refusal = KeyRefusedError("tcp://h:1", "watch.key", "it was taken off the list")
        return records


def test_a_key_that_is_taken_out_ends_the_lines_with_its_reason_and_exit_code():
    feed = Feed(TakenOut, wait_for_bus=False)
    thread = running(feed)
    lines: list[str] = []
    ends_s = time.monotonic() + 10
    failure = run_plain(
        feed, lines.append, interval_s=0.0, stopped=lambda: time.monotonic() > ends_s
    )
    feed.stop()
    thread.join(5)
    assert failure is not None
    assert failure.exit_code == 5
    assert failure.text == "tcp://h:1 does not let watch.key in: it was taken off the list"
    assert len(lines) == 1
    assert lines[0].startswith("iter 100/3000  ")


def test_with_wait_a_key_may_come_back():
    feed = Feed(TakenOut, wait_for_bus=False)
    thread = running(feed)
    lines: list[str] = []

    ends_s = time.monotonic() + 10

    def stopped() -> bool:
        return len(lines) > 1 or time.monotonic() > ends_s

    assert run_plain(feed, lines.append, wait=True, interval_s=0.0, stopped=stopped) is None
    feed.stop()
    thread.join(5)
    assert "  key refused  ! tcp://h:1 does not let watch.key in: it was taken off" in lines[1]
