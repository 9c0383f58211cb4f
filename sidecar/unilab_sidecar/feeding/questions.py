"""What a view asks of the feed beyond the live updates, and what comes back. Pure.

A view that needs more than updates hands a question to ``Feed.ask`` (any thread, at once, as often
as it likes) and finds the answer in the ``answers`` of a later ``Batch``. Of each kind of question
the feed keeps the newest one; an answer names the question that it is to, so that one to an
earlier wish can be told from the one that is waited for. Where there is nobody to ask, the answer
is ``NoAnswer`` with a sentence for people: every question is answered. Where that is so only for the
moment (``may_come``), what is asked once goes on being asked, and its answer comes later; see
:func:`put`. What is asked again and again anyway is not.

A question may be answered in several pieces: see :func:`put`.

A new kind is a class with a method ``put``, a method of the ``Subscriber`` that does the work, and
its place in ``Question`` and in the type of ``Answer.reply``.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from unilab_metrics.errors import UnilabMetricsError
from unilab_metrics.subscribe.asking import NoAnswer
from unilab_metrics.subscribe.earlier_runs import EarlierRuns
from unilab_metrics.subscribe.pace import Pace
from unilab_schema.requests import Console, ConsolePiece, RankValues
from unilab_sidecar.charting.store import HistoryPiece
from unilab_sidecar.feeding.earlier_events import EventsBefore, EventsQuestion, PointsQuestion
from unilab_sidecar.feeding.moment import Moment
from unilab_sidecar.feeding.past_pieces import PastPeak, PastPiece, PastQuestion, PeakQuestion
from unilab_sidecar.feeding.past_questions import (
    CourseQuestion,
    DetailQuestion,
    MomentQuestion,
    PastAnswering,
)

_LIVE = "only a run that is played again goes at another speed"


class Answering(PastAnswering, Protocol):
    """What questions need of ``unilab_metrics.subscribe.Subscriber``. Nothing here waits: ``None``
    until the answer is there, which a poll brings."""

    def ranks(self, tags: tuple[str, ...]) -> RankValues | NoAnswer | None:
        """Each source's newest values."""
        ...

    def console(self, asked: Console) -> ConsolePiece | NoAnswer | None:
        """A piece of what the training has printed."""
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
class ConsoleQuestion:
    """What the training has printed behind a place of its output, or ``before`` it; see
    ``unilab_schema.requests.Console``."""

    file: str = ""
    offset: int = 0
    before: bool = False
    most_bytes: int = 65536

    def put(self, source: Answering) -> ConsolePiece | NoAnswer | None:
        """Called in the feed's thread, again and again until there is an answer."""
        asked = Console(0, self.file, self.offset, self.before, self.most_bytes)
        return source.console(asked)


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
    """Of earlier runs, the newest first. ``about``: of each, what tells it from the others."""

    names: tuple[str, ...]
    about: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunsQuestion:
    """Which earlier runs there are beside this one."""

    def put(self, source: Answering) -> RunNames | NoAnswer:
        """Called once in the feed's thread."""
        try:
            names = source.earlier.names()
            return RunNames(names, tuple(source.earlier.about(name) for name in names))
        except OSError as error:
            return unreadable(error)


@dataclass(frozen=True, slots=True)
class EarlierQuestion:
    """The course of tags in the earlier run of this name, or a stretch of it."""

    name: str
    course: CourseQuestion | DetailQuestion

    def put(self, source: Answering) -> HistoryPiece | NoAnswer | None:
        """Called in the feed's thread, again and again until there is an answer."""
        try:
            past = source.earlier.open(self.name)
            return NoAnswer("it is gone") if past is None else self.course.put(past)
        except OSError as error:
            return unreadable(error)
        except UnilabMetricsError as error:
            return NoAnswer(str(error))


class StopSaid(NamedTuple):
    """What came of it, in one sentence."""

    text: str


@dataclass(frozen=True, slots=True)
class StopQuestion:
    """Whether the training stops, asked of its processes by ``ask``: that looks for their files
    and may take a while, as the system does. ``goes_on``: who has not stopped all the same, empty
    for nobody, and ``None`` until it is time to say so."""

    ask: Callable[[], str]
    goes_on: Callable[[], str | None] | None = None

    def put(self, source: Answering | None) -> StopSaid:  # noqa: ARG002
        """Called once in the feed's thread, which need not have found the run yet."""
        return StopSaid(self.ask())

    def following(self) -> StopCheck | None:
        """What is asked when the training has been."""
        return None if self.goes_on is None else StopCheck(self.goes_on)


@dataclass(frozen=True, slots=True)
class StopCheck:
    """Who goes on some seconds after a training was asked to stop."""

    goes_on: Callable[[], str | None]

    def put(self, source: Answering | None) -> StopSaid | None:  # noqa: ARG002
        """Called in the feed's thread, again and again until there is an answer."""
        text = self.goes_on()
        return None if text is None else StopSaid(text)


Question = (
    RanksQuestion
    | ConsoleQuestion
    | CourseQuestion
    | DetailQuestion
    | EventsQuestion
    | PointsQuestion
    | PastQuestion
    | PeakQuestion
    | MomentQuestion
    | PaceQuestion
    | RunsQuestion
    | EarlierQuestion
    | StopQuestion
    | StopCheck
)


class Answer(NamedTuple):
    """``reply``: as the question's ``put`` has it."""

    question: Question
    reply: (
        RankValues
        | ConsolePiece
        | HistoryPiece
        | EventsBefore
        | PastPiece
        | PastPeak
        | Moment
        | Pace
        | RunNames
        | StopSaid
        | NoAnswer
    )


class Step(NamedTuple):
    """What has come of a question: an answer, if there is one already, and what is asked next."""

    answer: Answer | None
    following: Question | None


_REPEATED = (RanksQuestion, ConsoleQuestion, PaceQuestion)
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM})


def unreadable(error: OSError) -> NoAnswer:
    """Where it is not there, or not for us, it is not asked for again."""
    return NoAnswer(error.strerror or str(error), may_come=error.errno not in _GONE)


def put(question: Question, asked: Question, source: Answering | None) -> Step | None:
    """One step towards the answer, ``None`` while it is waited for. ``asked``: the question that
    somebody has asked, of which ``question`` is a part. Without a ``source`` most wait for one."""
    try:
        if isinstance(question, StopQuestion):
            return Step(Answer(asked, question.put(source)), question.following())
        if isinstance(question, StopCheck):
            said = question.put(source)
            return None if said is None else Step(Answer(asked, said), None)
        reply = None if source is None else question.put(source)
    except OSError as error:
        reply = unreadable(error)
    if reply is None:
        return None
    if isinstance(reply, NoAnswer) and reply.may_come and not isinstance(question, _REPEATED):
        return Step(Answer(asked, reply), question)
    if isinstance(reply, MomentQuestion | EventsQuestion):
        return Step(None, reply)
    if isinstance(question, CourseQuestion | DetailQuestion) and isinstance(reply, HistoryPiece):
        return Step(Answer(asked, reply), question.following(reply))
    if isinstance(question, EarlierQuestion) and isinstance(reply, HistoryPiece):
        course = question.course.following(reply)
        following = None if course is None else EarlierQuestion(question.name, course)
        return Step(Answer(asked, reply), following)
    rest: Question | None = None
    if isinstance(question, PastQuestion) and isinstance(reply, PastPiece):
        rest = question.following(reply)
    if isinstance(question, PeakQuestion) and isinstance(reply, PastPeak):
        rest = question.following(reply)
    return Step(Answer(asked, reply), rest)
