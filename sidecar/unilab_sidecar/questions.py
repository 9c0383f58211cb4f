"""What a view asks of the feed beyond the live updates, and what comes back. Pure.

A view that needs more than updates hands a question to ``Feed.ask`` (any thread, at once, as often
as it likes) and finds the answer in the ``answers`` of a later ``Batch``. Of each kind of question
the feed keeps the newest one; an answer names the question that it is to, so that one to an
earlier wish can be told from the one that is waited for. Where there is nobody to ask, the answer
is ``NoAnswer`` with a sentence for people: every question is answered.

A new kind is a class here with a method :meth:`~Question.put`, a method of the ``Subscriber`` that
does the work, and its place in the type of ``Answer.reply``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from unilab_schema.control import RankValues

if TYPE_CHECKING:
    from unilab_metrics.subscribe.asking import NoAnswer


class Answering(Protocol):
    """What questions need of ``unilab_metrics.subscribe.Subscriber``. Nothing here waits: ``None``
    until the answer is there, which a poll brings."""

    def ranks(self, tags: tuple[str, ...]) -> RankValues | NoAnswer | None:
        """Each source's newest values."""
        ...


@dataclass(frozen=True, slots=True)
class RanksQuestion:
    """Each source's newest values of ``tags``; empty: the first hundred that there are."""

    tags: tuple[str, ...] = ()

    def put(self, source: Answering) -> RankValues | NoAnswer | None:
        """Called in the feed's thread, again and again until there is an answer."""
        return source.ranks(self.tags)


Question = RanksQuestion


class Answer(NamedTuple):
    """``reply``: as the question's ``put`` has it."""

    question: Question
    reply: RankValues | NoAnswer
