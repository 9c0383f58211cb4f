"""What a view asks of the feed: answered in a batch, the newest of each kind, never waited for."""

from __future__ import annotations

import threading
import time

from sample_run import FakeSource

from unilab_metrics.subscribe.asking import NoAnswer
from unilab_metrics.subscribe.history import HistoryRecord
from unilab_schema.control import Epoch, RankValues
from unilab_sidecar.feed import ASKING_POLL_MS, POLL_MS, Feed
from unilab_sidecar.questions import Answer, RanksQuestion


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
