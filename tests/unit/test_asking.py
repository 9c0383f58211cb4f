"""Questions to the aggregator: sent once, answered once, never waited for."""

from __future__ import annotations

from typing import Any

from unilab_metrics.subscribe.asking import (
    AGAIN_S,
    GIVE_UP_S,
    LET_GO_S,
    Asking,
    NoAnswer,
    Question,
    completed,
    ranks_question,
)
from unilab_schema.codec import MAX_MESSAGE_BYTES, encode_message
from unilab_schema.control import Epoch, Head
from unilab_schema.identity import RunInfo
from unilab_schema.requests import Fetch, History, Ranks, RankValues, Updates

EPOCH = Epoch(b"j" * 16, 1)


def head(*answers: str) -> Head:
    return Head(EPOCH, 1, 1, 1, RunInfo(), "/run", (), (), 0, 0, answers=answers)


def values(request: int, left_out: int = 0) -> RankValues:
    return RankValues(request, EPOCH, 1, 0, 1, (), (), (), left_out)


def updates(request: int) -> Updates:
    return Updates(request, EPOCH, 1, (), b"")


class Line:
    """Takes requests; ``full``: not now."""

    def __init__(self) -> None:
        self.sent: list[Question] = []
        self.full = False
        numbers = iter(range(5, 100))
        self.asking = Asking(numbers.__next__)

    def put(self, question: Question, now_s: float = 0.0, **more: Any) -> object:
        return self.asking.put(question, more.get("head", head("ranks")), now_s, self._send)

    def _send(self, request: Question) -> bool:
        if not self.full:
            self.sent.append(request)
        return not self.full


def test_a_question_is_sent_once_and_answered_once() -> None:
    line = Line()
    for _ in range(3):
        assert line.put(Ranks(0, ("a",))) is None
    assert line.sent == [Ranks(5, ("a",))]
    line.asking.heed(values(4))
    assert line.put(Ranks(0, ("a",))) is None
    line.asking.heed(values(5))
    assert line.put(Ranks(0, ("a",))) == values(5)
    assert line.put(Ranks(0, ("a",))) is None
    assert [request.request for request in line.sent] == [5, 6]


def test_the_newest_question_of_a_kind_counts() -> None:
    line = Line()
    line.put(Ranks(0, ("a",)))
    line.put(Ranks(0, ("b",)))
    line.asking.heed(values(5))
    assert line.put(Ranks(0, ("b",))) is None
    line.asking.heed(values(6))
    assert line.put(Ranks(0, ("b",))) == values(6)


def test_two_who_fetch_take_turns() -> None:
    line = Line()
    one, other = Fetch(0, 1), Fetch(0, 2)
    for _ in range(3):
        assert line.put(one) is None
        assert line.put(other) is None
    assert line.sent == [Fetch(5, 1)]
    line.asking.heed(updates(5))
    assert line.put(one) == updates(5)
    assert line.put(other) is None
    assert line.put(Fetch(0, 3)) is None
    line.asking.heed(updates(6))
    assert line.put(other) == updates(6)


def test_a_fetch_that_nobody_waits_for_any_more_keeps_nobody_waiting() -> None:
    line = Line()
    line.put(Fetch(0, 1), 0.0)
    assert line.put(Fetch(0, 2), LET_GO_S / 2) is None
    line.put(Fetch(0, 2), LET_GO_S)
    assert line.sent == [Fetch(5, 1), Fetch(6, 2)]


def test_kinds_do_not_disturb_each_other() -> None:
    line = Line()
    line.put(Ranks(0))
    line.put(History(0))
    line.asking.heed(values(5))
    assert line.put(History(0)) is None
    assert line.put(Ranks(0)) == values(5)


def test_a_lost_answer_is_asked_for_again_and_given_up_in_the_end() -> None:
    line = Line()
    line.put(Ranks(0), 0.0)
    assert line.put(Ranks(0), AGAIN_S - 0.1) is None
    assert len(line.sent) == 1
    line.put(Ranks(0), AGAIN_S)
    assert [request.request for request in line.sent] == [5, 6]
    answer = line.put(Ranks(0), GIVE_UP_S)
    assert isinstance(answer, NoAnswer)
    assert "has not answered" in answer.text
    assert line.put(Ranks(0), GIVE_UP_S) is None


def test_what_cannot_be_sent_yet_is_sent_as_soon_as_it_can() -> None:
    line = Line()
    line.full = True
    assert line.put(Ranks(0), 0.0) is None
    line.full = False
    line.put(Ranks(0), 0.02)
    assert len(line.sent) == 1


def test_an_older_aggregator_is_not_asked_what_it_does_not_know() -> None:
    line = Line()
    answer = line.put(Ranks(0), head=head())
    assert isinstance(answer, NoAnswer)
    assert "older than this viewer" in answer.text
    assert line.sent == []
    assert line.put(History(0), head=head()) is None
    assert len(line.sent) == 1


def test_another_aggregator_is_asked_anew() -> None:
    line = Line()
    line.put(Ranks(0))
    line.asking.forget()
    line.asking.heed(values(5))
    assert line.put(Ranks(0)) is None
    assert len(line.sent) == 2


def test_no_question_exceeds_a_message_and_what_is_not_asked_is_counted() -> None:
    for tags in (
        tuple(f"Loss/{number}" for number in range(12_345)),
        tuple(f"{'数' * 500}{number}" for number in range(4000)),
    ):
        question = ranks_question(tags)
        assert 200 < len(question.tags) <= 4096
        assert len(encode_message(question)) < MAX_MESSAGE_BYTES
        answered = completed(values(1, left_out=3), tags)
        assert answered.left_out_tags == 3 + len(tags) - len(question.tags)
    assert completed(values(1), ("a", "a")) == values(1)
