"""A run that has ended is joined at its end: the first picture comes after few entries, and all
that is said of the whole run is as if it had been read from its beginning."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from long_history import START_UNIX_NS, LongHistory, S

from unilab_metrics.subscribe import files
from unilab_metrics.subscribe.asking import NoAnswer
from unilab_metrics.subscribe.history import HistoryRecord
from unilab_metrics.subscribe.subscriber import Subscriber
from unilab_schema.frames import EventFrame, Scalar
from unilab_schema.updates import EventUpdate
from unilab_sidecar.feeding import feed as feed_module
from unilab_sidecar.feeding import past_pieces
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.feeding.earlier_events import EventsBefore, EventsQuestion
from unilab_sidecar.feeding.feed import Feed
from unilab_sidecar.feeding.moment import Moment
from unilab_sidecar.feeding.past_pieces import PastQuestion, PeakQuestion
from unilab_sidecar.feeding.past_questions import MomentQuestion
from unilab_sidecar.feeding.questions import Answer
from unilab_sidecar.looking.scrubbing import Scrubbing
from unilab_sidecar.looking.viewing import ViewState
from unilab_sidecar.looking.watching import Watching
from unilab_sidecar.picture import Picture
from unilab_sidecar.series import Series

if TYPE_CHECKING:
    from typing_extensions import Self

UPDATES = 5000
SPIKE = 1234
PEAK = 77.5
FACTS: dict[str, Scalar] = {"rule": "collapse", "severity": "bad"}
ALERT = EventUpdate(
    1,
    None,
    EventFrame("alert", "the reward has collapsed", S, START_UNIX_NS + S, SPIKE, FACTS),
)


class Spiky(LongHistory):
    """Its reward is highest long before the end."""

    def value(self, tag: str, k: int) -> float:
        is_spike = k == SPIKE - 200 and tag == "Train/mean_reward"
        return PEAK if is_spike else super().value(tag, k)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> LongHistory:
    made = Spiky(tmp_path_factory.mktemp("ended") / "run", segment_bytes=200_000)
    made.updates(SPIKE)
    made.add(ALERT)
    made.updates(UPDATES - SPIKE)
    made.end()
    made.write()
    return made


def read_whole(run_dir: Path) -> Picture:
    series = Series(str(run_dir))
    with Subscriber.attach(run_dir) as source:
        while records := source.poll(0):
            series.add(Batch(records=tuple(records)))
        series.add(Batch(lost_entries=source.lost_entries))
    return series.picture()


class Opened:
    """A viewer at a feed, step by step: the feed's thread is this one."""

    def __init__(self, run_dir: Path) -> None:
        self.watching = Watching(str(run_dir))
        self.feed = Feed(lambda: pytest.fail("nobody"), wait_for_bus=False, run_dir=str(run_dir))
        self.source = Subscriber.attach(run_dir)
        self.source.keeps_up = True
        self.pieces = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.source.close()

    def first(self) -> int:
        """Goes on to the first picture; how many entries that takes."""
        count = 0
        while records := self.source.poll(0):
            count += len(records)
            self._take(Batch(records=tuple(records), behind=True))
        self._take(Batch())
        return count

    def rest(self, most: int = 1000, state: ViewState = ViewState()) -> None:  # noqa: B008
        """Goes on until nothing is waited for."""
        for _ in range(most):
            asked = self.watching.questions(state, is_between=False)
            if not self.watching.is_waiting and not asked and not self.feed._is_asking():
                return
            for question in asked:
                self.feed.ask(question)
            answers = self.feed._answers(self.source)
            self.pieces += sum(isinstance(one.question, PastQuestion) for one in answers)
            self._take(Batch(answers=answers, lost_entries=self.source.lost_entries))
        pytest.fail("it never comes to an end")

    def _take(self, batch: Batch) -> None:
        self.watching.take(batch, is_paused=False)
        self.watching.looked_at()


def test_the_first_picture_is_there_after_few_entries(made: LongHistory) -> None:
    with Opened(made.run_dir) as opened:
        count = opened.first()
        newest = opened.watching.newest
    assert files.END_ENTRIES <= count <= files.END_ENTRIES + 8
    whole = read_whole(made.run_dir)
    assert newest.stage == "ended"
    assert newest.iteration == UPDATES
    assert newest.run == whole.run
    assert newest.samples == whole.samples
    assert newest.losses == whole.losses
    assert newest.rewards.mean == whole.rewards.mean
    assert newest.rewards.peak is None, "of so few entries none is known"


def test_then_everything_is_as_if_it_had_been_read_from_the_beginning(
    made: LongHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_pieces, "_PIECE", 1000)
    with Opened(made.run_dir) as opened:
        opened.first()
        opened.rest()
        newest = opened.watching.newest
        assert opened.pieces == 4
    whole = read_whole(made.run_dir)
    assert whole.rewards.whole_run
    assert whole.rewards.peak == PEAK
    assert [one.text for one in whole.own_alerts[0]] == ["the reward has collapsed"]
    assert newest == replace(whole, run_dir=newest.run_dir, target=newest.target)


def test_what_comes_in_one_batch_or_was_asked_of_the_end_is_not_told_twice(
    made: LongHistory,
) -> None:
    whole = read_whole(made.run_dir)
    with Opened(made.run_dir) as opened:
        came: list[HistoryRecord] = []
        while records := opened.source.poll(0):
            came += records
        opened._take(Batch(records=tuple(came)))
        watching, state = opened.watching, ViewState(view="events")
        asked = watching.questions(state)
        late = [one for one in asked if isinstance(one, EventsQuestion)]
        for one in asked:
            if one not in late:
                opened.feed.ask(one)
        opened.rest()
        assert [one.kind for one in watching.newest.milestones] == ["start", "completed"]
        assert len(watching.newest.notes) == len(whole.notes) == 1
        reply = EventsBefore((HistoryRecord(SPIKE + 2, ALERT, ()),))
        opened._take(Batch(answers=(Answer(late[0], reply),)))
        assert watching.newest.notes == whole.notes
        assert watching.newest.milestones == whole.milestones


def test_nothing_is_waited_for_on_the_way_to_the_first_picture(
    made: LongHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "SIGN_OF_LIFE_S", 3600.0)
    waited_ms: list[float] = []
    poll = Subscriber.poll

    def heed(source: Subscriber, timeout_ms: float) -> list[HistoryRecord]:
        waited_ms.append(timeout_ms)
        return poll(source, timeout_ms)

    monkeypatch.setattr(Subscriber, "poll", heed)
    feed = Feed(lambda: Subscriber.attach(made.run_dir), wait_for_bus=False)
    feed.keeps_up = True
    thread = threading.Thread(target=feed.run)
    thread.start()
    try:
        batches: list[Batch] = []
        deadline_s = time.monotonic() + 30
        while not batches or batches[-1].behind:
            assert time.monotonic() < deadline_s
            batches += feed.wait(0.1)
        count = len(batches)
    finally:
        feed.stop()
        thread.join()
    assert [bool(one.records) for one in batches] == [True] * (count - 1) + [False]
    assert waited_ms[1:count] == [0] * (count - 1)


def test_a_short_run_is_read_at_once(tmp_path: Path) -> None:
    made = LongHistory(tmp_path / "run")
    made.updates(files.END_ENTRIES)
    made.end()
    made.write()
    with Opened(made.run_dir) as opened:
        assert opened.first() == files.END_ENTRIES + 2
        assert opened.watching.newest.rewards.whole_run
        assert not opened.watching.is_waiting


def test_a_window_of_many_updates_is_whole(tmp_path: Path) -> None:
    made = LongHistory(tmp_path / "run", interval_s=0.0004)
    made.updates(3 * UPDATES)
    made.end()
    made.write()
    with Opened(made.run_dir) as opened:
        count = opened.first()
        newest = opened.watching.newest
    assert newest.samples == pytest.approx(5000, abs=2)
    assert count <= 4 * files.END_ENTRIES * 4


def test_of_a_very_long_run_the_last_part_is_read(
    made: LongHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_pieces, "MOST_ENTRIES", 3000)
    with Opened(made.run_dir) as opened:
        count = opened.first()
        opened.rest()
        newest = opened.watching.newest
    assert count <= files.END_ENTRIES + 8
    # An event and the start of the attempt have sequences, too.
    assert newest.courses_from == UPDATES + 1 - files.END_ENTRIES - 1500 + 1
    assert not newest.rewards.whole_run
    assert newest.rewards.peak == PEAK, "it lies before what was read"


def test_where_nobody_tells_the_rest_in_brief_the_peak_is_of_what_was_read(
    made: LongHistory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(past_pieces, "MOST_ENTRIES", 3000)
    (tmp_path / "bus").mkdir(mode=0o700)
    for path in made.bus_dir.glob("history-*"):
        (tmp_path / "bus" / path.name).write_bytes(path.read_bytes())
    with Opened(tmp_path) as opened:
        opened.first()
        opened.rest()
        newest = opened.watching.newest
    assert newest.courses_from is not None
    values = [made.value("Train/mean_reward", k) for k in range(newest.courses_from, UPDATES + 1)]
    assert newest.rewards.peak == max(values) < PEAK


def test_entries_that_nobody_can_read_are_counted(tmp_path: Path) -> None:
    made = LongHistory(tmp_path / "run", segment_bytes=200_000)
    made.updates(UPDATES)
    made.end()
    made.write()
    path = sorted(made.bus_dir.glob("history-*"))[1]
    data = bytearray(path.read_bytes())
    data[50_000:50_400] = bytes(400)
    path.write_bytes(data)
    whole = read_whole(made.run_dir)
    assert whole.lost_entries > 1
    with Opened(made.run_dir) as opened:
        opened.first()
        opened.rest()
        assert opened.watching.newest.lost_entries == whole.lost_entries
        opened._take(Batch(lost_entries=opened.source.lost_entries))
        assert opened.watching.newest.lost_entries == whole.lost_entries


def test_a_moment_that_one_goes_to_has_the_peak_of_all_before_it(made: LongHistory) -> None:
    before = max(made.value("Train/mean_reward", k) for k in range(1, 801))
    assert before < PEAK
    with Opened(made.run_dir) as opened:
        opened.first()
        opened.rest()
        for at, peak in ((UPDATES + 3, PEAK), (UPDATES, PEAK), (800, before), (SPIKE, PEAK)):
            state = ViewState(paused_unix_s=1.0, at=at)
            opened.rest(state=state)
            picture = opened.watching.seen(state).picture
            assert picture.rewards.peak == pytest.approx(peak, rel=1e-12)
            assert (picture.ended is not None) == (at > UPDATES)


def test_while_keys_go_from_moment_to_moment_no_peak_is_read(made: LongHistory) -> None:
    scrubbing = Scrubbing()
    question = scrubbing.question(4000)
    assert question is not None
    with Subscriber.attach(made.run_dir) as source:
        source.poll(0)
        step: object = question
        while isinstance(step, MomentQuestion):
            step = step.put(source)
    assert isinstance(step, Moment)
    assert scrubbing.peak_question(is_between=False) is None
    scrubbing.answer(question, step)
    assert scrubbing.peak_question(is_between=True) is None
    assert scrubbing.question(3000) is not None
    assert scrubbing.peak_question(is_between=False) is None, "the next moment comes first"
    assert scrubbing.question(4000) is not None
    scrubbing.answer(scrubbing._asked or question, step)
    assert scrubbing.picture is not None
    assert scrubbing.picture.rewards.is_peak_awaited
    asked = scrubbing.peak_question(is_between=False)
    assert isinstance(asked, PeakQuestion)
    assert scrubbing.peak_question(is_between=False) is None, "once is enough"
    scrubbing.peak.answer(asked, NoAnswer("nobody tells"))
    assert not scrubbing.picture.rewards.is_peak_awaited
