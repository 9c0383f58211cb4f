"""What a view asks of the feed beyond the live updates, and what comes back. Pure.

A view that needs more than updates hands a question to ``Feed.ask`` (any thread, at once, as often
as it likes) and finds the answer in the ``answers`` of a later ``Batch``. Of each kind of question
the feed keeps the newest one; an answer names the question that it is to, so that one to an
earlier wish can be told from the one that is waited for. Where there is nobody to ask, the answer
is ``NoAnswer`` with a sentence for people: every question is answered.

A question may be answered in several pieces: see :func:`put`.

A new kind is a class with a method ``put``, a method of the ``Subscriber`` that does the work, and
its place in ``Question`` and in the type of ``Answer.reply``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from unilab_metrics.errors import UnilabMetricsError
from unilab_metrics.subscribe.asking import NoAnswer
from unilab_metrics.subscribe.earlier_runs import EarlierRuns
from unilab_metrics.subscribe.pace import Pace
from unilab_schema.control import RankValues
from unilab_sidecar.chart_store import HistoryPiece
from unilab_sidecar.moment import Moment
from unilab_sidecar.past_questions import CourseQuestion, MomentQuestion, PastAnswering

_LIVE = "only a run that is played again goes at another speed"


class Answering(PastAnswering, Protocol):
    """What questions need of ``unilab_metrics.subscribe.Subscriber``. Nothing here waits: ``None``
    until the answer is there, which a poll brings."""

    def ranks(self, tags: tuple[str, ...]) -> RankValues | NoAnswer | None:
        """Each source's newest values."""
        ...

    @property
    def earlier(self) -> EarlierRuns:
        """The runs beside this one that began before it."""
        ...

    def pace(self, speed: float | None, to: int | None, *, is_paused: bool | None) -> Pace | None:
        """How fast what is over is played again; ``None`` of a run that is not."""
        ...


@dataclass(frozen=True, slots=True)
class RanksQuestion:
    """Each source's newest values of ``tags``; empty: the first hundred that there are."""

    tags: tuple[str, ...] = ()

    def put(self, source: Answering) -> RankValues | NoAnswer | None:
        """Called in the feed's thread, again and again until there is an answer."""
        return source.ranks(self.tags)


@dataclass(frozen=True, slots=True)
class PaceQuestion:
    """Of a run that is played again: another ``speed``, whether it stands still, and from which
    update sequence it goes on; ``None`` leaves each as it is."""

    speed: float | None = None
    is_paused: bool | None = None
    to: int | None = None

    def put(self, source: Answering) -> Pace | NoAnswer:
        """Called once in the feed's thread."""
        return source.pace(self.speed, self.to, is_paused=self.is_paused) or NoAnswer(_LIVE)


class RunNames(NamedTuple):
    """Of earlier runs, the newest first."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunsQuestion:
    """Which earlier runs there are beside this one."""

    def put(self, source: Answering) -> RunNames | NoAnswer:
        """Called once in the feed's thread."""
        try:
            return RunNames(source.earlier.names())
        except OSError as error:
            return NoAnswer(error.strerror or str(error))


@dataclass(frozen=True, slots=True)
class EarlierQuestion:
    """The course of tags in the earlier run of this name."""

    name: str
    course: CourseQuestion

    def put(self, source: Answering) -> HistoryPiece | NoAnswer | None:
        """Called in the feed's thread, again and again until there is an answer."""
        try:
            past = source.earlier.open(self.name)
            return NoAnswer("it is gone") if past is None else self.course.put(past)
        except (OSError, UnilabMetricsError) as error:
            return NoAnswer(str(error))


Question = (
    RanksQuestion | CourseQuestion | MomentQuestion | PaceQuestion | RunsQuestion | EarlierQuestion
)


class Answer(NamedTuple):
    """``reply``: as the question's ``put`` has it."""

    question: Question
    reply: RankValues | HistoryPiece | Moment | Pace | RunNames | NoAnswer


class Step(NamedTuple):
    """What has come of a question: an answer, if there is one already, and what is asked next."""

    answer: Answer | None
    following: Question | None


def put(question: Question, asked: Question, source: Answering) -> Step | None:
    """One step towards the answer, ``None`` while it is waited for. ``asked``: the question that
    somebody has asked, of which ``question`` is a part."""
    try:
        reply = question.put(source)
    except OSError as error:
        reply = NoAnswer(error.strerror or str(error))
    if reply is None:
        return None
    if isinstance(reply, MomentQuestion):
        return Step(None, reply)
    if isinstance(question, CourseQuestion) and isinstance(reply, HistoryPiece):
        return Step(Answer(asked, reply), question.following(reply))
    if isinstance(question, EarlierQuestion) and isinstance(reply, HistoryPiece):
        course = question.course.following(reply)
        following = None if course is None else EarlierQuestion(question.name, course)
        return Step(Answer(asked, reply), following)
    return Step(Answer(asked, reply), None)
