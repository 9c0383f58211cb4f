"""What is not answered for the moment: told so, asked again, and never taken for an answer."""

from __future__ import annotations

import errno
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from chart_runs import TAG, records_of

from unilab_metrics.subscribe import answers as answers_module
from unilab_metrics.subscribe.answers import Answers, next_limit
from unilab_metrics.subscribe.asking import (
    AGAIN_S,
    GIVE_UP_S,
    LONGEST_AGAIN_S,
    TURN_S,
    Asking,
    NoAnswer,
    Question,
)
from unilab_metrics.subscribe.past_files import Stretch
from unilab_schema.control import Epoch, Head
from unilab_schema.identity import RunInfo
from unilab_schema.requests import Fetch, History, Updates
from unilab_sidecar.charting.keeping import ChartKeeping
from unilab_sidecar.feeding.asking_again import PAUSE_S, AskingAgain
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.feeding.earlier_events import EventsBefore, EventsQuestion
from unilab_sidecar.feeding.moment import Moment
from unilab_sidecar.feeding.past_pieces import PastQuestion, PeakQuestion
from unilab_sidecar.feeding.past_questions import CourseQuestion, MomentQuestion
from unilab_sidecar.feeding.questions import RanksQuestion, Step, put
from unilab_sidecar.series import Series
from unilab_sidecar.values.whole_run import WholeRun

EPOCH = Epoch(b"j" * 16, 1)
NOT_YET = NoAnswer("not yet", may_come=True)
NEVER = NoAnswer("never")


def head(ended: str | None = None) -> Head:
    return Head(EPOCH, 1, 1, 1, RunInfo(), "/run", (), (), 0, 0, ended)


def updates(request: int) -> Updates:
    return Updates(request, EPOCH, 1, (), b"")


class Line:
    def __init__(self) -> None:
        self.sent: list[Question] = []
        self.asking = Asking(iter(range(5, 100)).__next__)

    def put(self, question: Question, now_s: float) -> object:
        return self.asking.put(question, head(), now_s, self._send)

    def _send(self, request: Question) -> bool:
        self.sent.append(request)
        return True


@pytest.mark.parametrize("number", [5, 6, 7])
def test_an_answer_counts_whichever_time_it_was_asked_for_and_however_late(number: int) -> None:
    line = Line()
    told = [line.put(Fetch(0, 1), now_s / 10) for now_s in range(90)]
    assert [one.request for one in line.sent] == [5, 6, 7]
    assert [place / 10 for place, one in enumerate(told) if one is not None] == [GIVE_UP_S]
    assert isinstance(told[int(10 * GIVE_UP_S)], NoAnswer)
    assert told[int(10 * GIVE_UP_S)].may_come  # type: ignore[union-attr]
    line.asking.heed(updates(number))
    assert line.asking.has_come()
    assert not line.asking.has_come()
    assert line.put(Fetch(0, 1), 9.0) == updates(number)


def test_the_line_is_not_filled_with_what_is_asked_again() -> None:
    line, at_s = Line(), list[float]()
    for now_s in range(120):
        before = len(line.sent)
        line.put(History(0, 1), float(now_s))
        at_s += [float(now_s)] * (len(line.sent) - before)
    apart = [b - a for a, b in pairwise(at_s)]
    assert apart == sorted(apart)
    assert (apart[0], apart[-1]) == (AGAIN_S, LONGEST_AGAIN_S)
    assert len(apart) < 12


def test_another_one_has_its_turn_after_what_is_never_answered() -> None:
    line = Line()
    for now_s in range(int(10 * TURN_S) + 1):
        line.put(Fetch(0, 1), now_s / 10)
        line.put(Fetch(0, 2), now_s / 10)
    assert line.sent[-1].after == 2  # type: ignore[union-attr]
    assert {one.after for one in line.sent[:-1]} == {1}  # type: ignore[union-attr]


def test_over_a_slow_line_less_is_asked_for_at_once_and_more_again_when_it_is_fast() -> None:
    assert next_limit(10_000, 1000, 4.0) == 250
    assert next_limit(250, 250, 0.9) == 250
    assert next_limit(250, 250, 0.1) == 500
    assert next_limit(16, 1, 60.0) == 16
    # A kind of which there are few tells nothing of many.
    assert next_limit(250, 3, 0.1) == 250


def test_a_stretch_that_took_long_is_followed_by_a_smaller_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    monkeypatch.setattr(answers_module.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(
        answers_module, "records_in",
        lambda *_: type("Found", (), {"records": records_of([1.0] * 1000)}),
    )  # fmt: skip
    sent: list[Fetch] = []
    asked = Answers(iter(range(1, 9)).__next__, None)

    def ask(after: int) -> object:
        return asked.stretch(after, 1000, (), (), head(), lambda one: not sent.append(one))  # type: ignore[arg-type, func-returns-value]

    assert ask(0) is None
    clock[0] = 4.0
    asked.heed(updates(1))
    assert isinstance(ask(0), Stretch)
    ask(1000)
    assert [one.limit for one in sent] == [128, 32]


@pytest.mark.parametrize(("ended", "may_come"), [(None, True), ("completed", False)])
def test_what_is_not_heard_may_come_unless_the_run_is_over(
    ended: str | None, *, may_come: bool
) -> None:
    asked = Answers(iter(range(9)).__next__, None)
    said = asked.bins((TAG,), 0, head(ended), None)
    assert isinstance(said, NoAnswer)
    assert said.may_come is may_come
    ranks = asked.ranks((), head(ended), None)
    assert isinstance(ranks, NoAnswer)
    assert ranks.may_come is may_come
    assert ("only a live run" in ranks.text) is not may_come


@dataclass
class Silent:
    """Does not answer at the moment, or never."""

    reply: NoAnswer
    cursor: int | None = 50_000

    def newest(self) -> int:
        return 50_000

    def _said(self, *_: object, **__: object) -> NoAnswer:
        return self.reply

    bins = stretch = ranks = _said


@pytest.mark.parametrize(
    "question",
    [CourseQuestion((TAG,)), PastQuestion(0, 9), MomentQuestion(9)],
    ids=["course", "past", "moment"],
)
@pytest.mark.parametrize(("reply", "goes_on"), [(NOT_YET, True), (NEVER, False)])
def test_what_is_asked_once_goes_on_being_asked_while_it_may_come(
    question: CourseQuestion, reply: NoAnswer, *, goes_on: bool
) -> None:
    asked, step = question, question
    for _ in range(3):
        made = put(step, asked, Silent(reply))  # type: ignore[arg-type]
        assert made is not None
        if made.answer is not None:
            break
        step = made.following  # type: ignore[assignment]
    assert made.answer is not None  # pyright: ignore[reportPossiblyUnboundVariable]
    assert made.answer.reply == reply
    assert made.following == (step if goes_on else None)


def test_what_is_asked_at_a_pace_of_its_own_is_asked_at_that() -> None:
    made = put(RanksQuestion(), RanksQuestion(), Silent(NOT_YET))  # type: ignore[arg-type]
    assert made == Step(made.answer, None)  # type: ignore[union-attr]


@pytest.mark.parametrize(("number", "may_come"), [(errno.EIO, True), (errno.ENOENT, False)])
def test_files_that_are_there_may_be_readable_later(number: int, *, may_come: bool) -> None:
    class Broken(Silent):
        def stretch(self, *_: object) -> NoAnswer:  # type: ignore[override]
            raise OSError(number, "it fails")

    made = put(PastQuestion(0, 9), PastQuestion(0, 9), Broken(NEVER))  # type: ignore[arg-type]
    assert made is not None
    assert made.answer is not None
    assert made.answer.reply == NoAnswer("it fails", may_come)
    assert (made.following is not None) is may_come


def test_it_is_asked_again_after_a_pause_or_as_soon_as_the_run_is_heard_again() -> None:
    again, question, other = AskingAgain(), CourseQuestion((TAG,)), CourseQuestion(("b",))
    again.heed(is_heard=True)
    again.asked("course", question, NOT_YET, 10.0)
    assert not again.is_due("course", question, 10.0 + PAUSE_S - 0.1)
    assert again.is_due("course", other, 10.0)
    assert again.is_due("course", question, 10.0 + PAUSE_S)
    again.asked("course", question, NOT_YET, 15.0)
    again.heed(is_heard=False)
    assert not again.is_due("course", question, 16.0)
    again.heed(is_heard=True)
    assert again.is_due("course", question, 16.0)
    # Who has waited long enough already asks at once.
    again.asked("course", question, None, 20.0)
    again.asked("course", question, NOT_YET, 20.0 + PAUSE_S + 1)
    assert again.is_due("course", question, 20.0 + PAUSE_S + 1)


def keeping(through: int) -> ChartKeeping:
    made = ChartKeeping(lambda _tags: ())
    made.choose((TAG,))
    made.add(records_of([1.0] * 10, first=through + 1), is_paused=False)
    return made


def test_a_course_that_may_come_is_loading_until_it_is_there() -> None:
    kept = keeping(90)
    question = kept.question()
    assert question is not None
    kept.answer(question, NOT_YET)
    assert kept.store.progress(TAG) == 0.0
    assert not kept.is_loading, "nothing is on its way"
    assert kept.question() is None, "the feed goes on asking"
    kept.answer(question, NEVER)
    assert kept.store.progress(TAG) == 1.0
    assert kept.store.is_partial(TAG)
    assert kept.question() is None


@pytest.mark.parametrize("is_read", [False, True], ids=["entries", "peak"])
def test_the_rest_of_a_run_is_waited_for_while_it_may_come(*, is_read: bool) -> None:
    whole = WholeRun(lambda: Series("/run", ""))
    whole.heed(Batch(records=tuple(records_of([1.0] * 5, first=11))))
    whole._is_read = is_read
    asked = [whole.question("reward") for _ in range(10)]
    (question,) = (one for one in asked if one is not None)
    for reply, is_pending in ((NOT_YET, True), (NEVER, False)):
        if isinstance(question, PeakQuestion):
            whole.peak_answer(question, reply)
        else:
            assert whole.answer(question, reply) is None
        assert whole.is_pending is is_pending


def test_events_that_may_come_are_not_given_up_for_some_that_are_known() -> None:
    known = tuple(records_of([1.0], first=90))
    question = EventsQuestion(80, after=60, end=80, reached=60, found=known)
    assert question.put(Silent(NOT_YET)) == NOT_YET  # type: ignore[arg-type]
    assert question.put(Silent(NEVER)) == EventsBefore(known)  # type: ignore[arg-type]


def test_a_moment_waits_for_the_block_before_it_while_that_may_come() -> None:
    records = tuple(records_of([1.0] * 2000, first=3001))
    question = MomentQuestion(5000, back=16_384, reached=5000, records=records)
    question = replace(question, at=20_000, reached=20_000)
    assert question.put(Silent(NOT_YET)) == NOT_YET  # type: ignore[arg-type]
    assert isinstance(question.put(Silent(NEVER)), Moment)  # type: ignore[arg-type]
