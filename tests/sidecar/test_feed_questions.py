"""What a view asks of the feed: answered in a batch, the newest of each kind, never waited for."""

from __future__ import annotations

import threading
import time
from itertools import pairwise

import pytest
from sample_run import FakeSource

from unilab_metrics.errors import UnilabMetricsError
from unilab_metrics.subscribe.asking import NoAnswer
from unilab_metrics.subscribe.history import HistoryRecord
from unilab_metrics.subscribe.past_files import Stretch
from unilab_schema.control import Epoch
from unilab_schema.requests import RankValues
from unilab_sidecar.feeding import asking_again
from unilab_sidecar.feeding.feed import ASKING_POLL_MS, POLL_MS, Feed
from unilab_sidecar.feeding.past_questions import CourseQuestion
from unilab_sidecar.feeding.questions import Answer, RanksQuestion, StopQuestion, StopSaid


def values(tags: tuple[str, ...]) -> RankValues:
    return RankValues(1, Epoch(b"j" * 16, 1), 1, 0, 1, tags, (), ())


class Slow(FakeSource):
    """Answers after three polls; the history stands still."""

    def __init__(self) -> None:
        super().__init__(end_after=0)
        self.put: list[tuple[str, ...]] = []
        self.polls: list[int] = []

    def poll(self, timeout_ms: int) -> list[HistoryRecord]:
        self.polls.append(timeout_ms)
        time.sleep(timeout_ms / 1000)
        return []

    def ranks(self, tags: tuple[str, ...]) -> RankValues | NoAnswer | None:
        self.put.append(tags)
        return values(tags) if self.put.count(tags) % 3 == 0 else None


def answered(feed: Feed, count: int) -> list[Answer]:
    found: list[Answer] = []
    deadline_s = time.monotonic() + 10
    while len(found) < count and time.monotonic() < deadline_s:
        found += [answer for batch in feed.wait(0.2) for answer in batch.answers]
    return found


def test_each_question_is_answered_and_the_newest_of_a_kind_counts():
    source = Slow()
    feed = Feed(lambda: source, wait_for_bus=False)
    feed.ask(RanksQuestion(("old",)))
    feed.ask(RanksQuestion(("a",)))
    thread = threading.Thread(target=feed.run)
    thread.start()
    (first,) = answered(feed, 1)
    assert first == Answer(RanksQuestion(("a",)), values(("a",)))
    feed.ask(RanksQuestion(("b",)))
    (second,) = answered(feed, 1)
    assert second.question == RanksQuestion(("b",))
    deadline_s = time.monotonic() + 10
    polls = len(source.polls)
    while len(source.polls) < polls + 3 and time.monotonic() < deadline_s:
        time.sleep(0.02)
    feed.stop()
    thread.join(5)
    assert not thread.is_alive()
    assert source.put == 3 * [("a",)] + 3 * [("b",)]
    assert source.polls[0] == ASKING_POLL_MS
    assert source.polls[-1] == POLL_MS


def test_where_nobody_can_be_asked_the_answer_says_so():
    feed = Feed(FakeSource, wait_for_bus=False)
    thread = threading.Thread(target=feed.run)
    thread.start()
    feed.ask(RanksQuestion())
    (answer,) = answered(feed, 1)
    feed.stop()
    thread.join(5)
    assert answer == Answer(RanksQuestion(), NoAnswer("nobody to ask"))


@pytest.mark.parametrize("is_found", [True, False])
def test_a_training_is_asked_to_stop_in_the_thread_of_the_feed_whether_its_bus_is_there_or_not(
    is_found: bool,
):
    def attach() -> FakeSource:
        if not is_found:
            raise UnilabMetricsError("no bus")
        return Slow()

    feed = Feed(attach, wait_for_bus=True)
    thread = threading.Thread(target=feed.run, name="the feed")
    later = iter((None, None, "pid 1 goes on"))
    asked = StopQuestion(lambda: f"asked by {threading.current_thread().name}", lambda: next(later))
    feed.ask(asked)
    thread.start()
    answers = answered(feed, 2)
    feed.stop()
    thread.join(5)
    said = [StopSaid("asked by the feed"), StopSaid("pid 1 goes on")]
    assert [answer.reply for answer in answers] == said


class Mute(Slow):
    """Has no answer for its first questions; the history has nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    def stretch(self, after: int, limit: int, tags: object = (), kinds: object = ()) -> Stretch:
        self.asked.append(len(self.polls))
        if len(self.asked) < 4:
            return NoAnswer("not heard", may_come=True)  # type: ignore[return-value]
        return Stretch((), 7)

    def newest(self) -> int:
        return 7


def test_what_is_not_told_at_the_moment_is_asked_again_now_and_then_until_it_is(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(asking_again, "PAUSE_S", 0.3)
    source = Mute()
    feed = Feed(lambda: source, wait_for_bus=False)
    question = CourseQuestion(("a",))
    feed.ask(question)
    thread = threading.Thread(target=feed.run)
    thread.start()
    answers = answered(feed, 4)
    feed.stop()
    thread.join(5)
    assert {answer.question for answer in answers} == {question}
    assert [isinstance(one.reply, NoAnswer) for one in answers] == [True, True, True, False]
    # In between it is not asked with every poll, and nobody is in a hurry.
    assert all(b - a >= 2 for a, b in pairwise(source.asked))
    assert source.polls[source.asked[0] : source.asked[1]].count(POLL_MS) >= 2
