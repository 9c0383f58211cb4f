"""Requests to the aggregator whose answer comes between two polls. Pure: time is handed in.

A question is put again and again until its answer is there: the first time sends it, later times
look for the answer, and send it once more if that seems to be lost. So nobody waits, and nothing
is left over when nobody asks any more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from unilab_schema.codec import MAX_FRAME_TAGS, MAX_MESSAGE_BYTES
from unilab_schema.control import Fetch, Head, History, Ranks, RankValues, Reply

AGAIN_S = 2.0
"""An answer that has not come by then is asked for again."""
GIVE_UP_S = 6.0
_MAX_TAG_BYTES = MAX_MESSAGE_BYTES // 2
_LOST = "the aggregator has not answered for 6 s"
_OLD = "this aggregator does not tell it: it is older than this viewer"

_EVERYBODY_ANSWERS = frozenset({"fetch", "latest", "history"})

Question = Fetch | History | Ranks
Send = Callable[[Question], bool]
"""Sends a request, ``False`` if that cannot be done now."""


class NoAnswer(NamedTuple):
    """Why there is none, for people."""

    text: str


class _Open(NamedTuple):
    question: Question
    began_s: float
    number: int = -1
    sent_s: float = 0.0


class Asking:
    """The newest question of each kind, and its answer. Numbers are given by the caller, so that
    they differ from those of other requests of the same connection."""

    def __init__(self, next_number: Callable[[], int]) -> None:
        self._next_number = next_number
        self._open: dict[type[Question], _Open] = {}
        self._replies: dict[type[Question], Reply] = {}

    def put(
        self, question: Question, head: Head | None, now_s: float, send: Send
    ) -> Reply | NoAnswer | None:
        """The answer, each once; ``None`` while it is on its way. Another question of the same kind
        takes the place of this one. ``question``: its number does not matter."""
        kind = type(question)
        if head is not None and kind.__struct_config__.tag not in _EVERYBODY_ANSWERS.union(
            head.answers
        ):
            return NoAnswer(_OLD)
        question = _numbered(question, 0)
        known = self._open.get(kind)
        if known is None or known.question != question:
            known = self._open[kind] = _Open(question, now_s)
            self._replies.pop(kind, None)
        elif (reply := self._replies.pop(kind, None)) is not None:
            del self._open[kind]
            return reply
        if now_s - known.began_s >= GIVE_UP_S:
            del self._open[kind]
            return NoAnswer(_LOST)
        if known.number < 0 or now_s - known.sent_s >= AGAIN_S:
            number = self._next_number()
            if send(_numbered(question, number)):
                self._open[kind] = known._replace(number=number, sent_s=now_s)
        return None

    @property
    def has_reply(self) -> bool:
        """Whether an answer waits for somebody who puts its question again."""
        return bool(self._replies)

    def heed(self, reply: Reply) -> None:
        """A reply has come; those to other questions are passed over."""
        for kind, asked in self._open.items():
            if asked.number == reply.request:
                self._replies[kind] = reply

    def forget(self) -> None:
        """Another aggregator: what was asked of the last one is asked anew."""
        self._open.clear()
        self._replies.clear()


def _numbered(question: Question, number: int) -> Question:
    return msgspec.structs.replace(question, request=number)


def ranks_question(tags: tuple[str, ...]) -> Ranks:
    """As many of the tags as one message holds."""
    size = 0
    for count, tag in enumerate(tags):
        size += 4 * len(tag) + 5
        if count == MAX_FRAME_TAGS or size > _MAX_TAG_BYTES:
            return Ranks(0, tags[:count])
    return Ranks(0, tags)


def completed(values: RankValues, tags: tuple[str, ...]) -> RankValues:
    """The answer to a question that had to be cut: what was not asked was left out too."""
    missing = len(set(tags)) - len(set(ranks_question(tags).tags))
    if not missing:
        return values
    return msgspec.structs.replace(values, left_out_tags=values.left_out_tags + missing)
