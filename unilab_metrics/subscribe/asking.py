"""Requests to the aggregator whose answer comes between two polls. Pure: time is handed in.

A question is put again and again until its answer is there: the first time sends it, later times
look for the answer, and send it once more if that seems to be lost, ever more seldom: over a slow
line an answer that is asked for twice is on its way twice. So nobody waits, and nothing is left over
when nobody asks any more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from unilab_schema.codec import MAX_FRAME_TAGS, MAX_MESSAGE_BYTES
from unilab_schema.control import Head
from unilab_schema.requests import Console, Fetch, History, Ranks, RankValues, Reply

AGAIN_S = 2.0
"""An answer that has not come by then is asked for again, then after twice as long, and so on."""
LONGEST_AGAIN_S = 16.0
GIVE_UP_S = 6.0
"""Whoever asks is told so often that there is none yet; one that comes later still counts."""
TURN_S = 30.0
"""An answer that has not come by then lets others have their turn."""
LET_GO_S = 0.25
"""Who has not put a question again for so long does not wait for its answer."""
_KEPT_NUMBERS = 16
_MAX_TAG_BYTES = MAX_MESSAGE_BYTES // 2
_LOST = "the aggregator has not answered for 6 s"
_OLD = "this aggregator does not tell it: it is older than this viewer"

_EVERYBODY_ANSWERS = frozenset({"fetch", "latest", "history"})

_SHARED = frozenset({Fetch, History})
"""Asked for several things at once, which take turns; of others the newest question counts."""

Question = Fetch | History | Ranks | Console
Send = Callable[[Question], bool]
"""Sends a request, ``False`` if that cannot be done now."""


class NoAnswer(NamedTuple):
    """Why there is none, for people. ``may_come``: there may be one if it is asked again."""

    text: str
    may_come: bool = False


class _Open(NamedTuple):
    question: Question
    opened_s: float
    began_s: float
    put_s: float
    numbers: tuple[int, ...] = ()
    sent_s: float = 0.0
    again_s: float = AGAIN_S


class Asking:
    """One question of each kind at a time, and its answer. Numbers are given by the caller, so that
    they differ from those of other requests of the same connection."""

    def __init__(self, next_number: Callable[[], int]) -> None:
        self._next_number = next_number
        self._open: dict[type[Question], _Open] = {}
        self._replies: dict[type[Question], Reply] = {}
        self._has_come = False
        self.took_s = 0.0
        """From asking until there was the answer that was handed out last."""

    def put(
        self, question: Question, head: Head | None, now_s: float, send: Send
    ) -> Reply | NoAnswer | None:
        """The answer, each once; ``None`` while it is on its way. Another question of the same kind
        takes the place of this one; or its turn, where there is more than one who asks. Without
        an answer for ``GIVE_UP_S`` that is said, and the question stays open.
        ``question``: its number does not matter."""
        kind = type(question)
        if head is not None and kind.__struct_config__.tag not in _EVERYBODY_ANSWERS.union(
            head.answers
        ):
            return NoAnswer(_OLD)
        question = _numbered(question, 0)
        known = self._open.get(kind)
        is_other = known is None or known.question != question
        if known is not None and is_other and kind in _SHARED:
            is_its_turn = now_s - known.opened_s < TURN_S
            if is_its_turn and now_s - known.put_s < LET_GO_S:
                return None
        if known is None or known.question != question:
            known = self._open[kind] = _Open(question, now_s, now_s, now_s)
            self._replies.pop(kind, None)
        elif (reply := self._replies.pop(kind, None)) is not None:
            del self._open[kind]
            self.took_s = now_s - known.opened_s
            return reply
        if now_s - known.began_s >= GIVE_UP_S:
            self._open[kind] = known._replace(began_s=now_s, put_s=now_s)
            return NoAnswer(_LOST, may_come=True)
        known = self._open[kind] = known._replace(put_s=now_s)
        if not known.numbers or now_s - known.sent_s >= known.again_s:
            number = self._next_number()
            if send(_numbered(question, number)):
                again_s = min(2 * known.again_s, LONGEST_AGAIN_S) if known.numbers else AGAIN_S
                numbers = (*known.numbers[1 - _KEPT_NUMBERS :], number)
                self._open[kind] = known._replace(numbers=numbers, sent_s=now_s, again_s=again_s)
        return None

    def has_come(self) -> bool:
        """Whether an answer has come since this was last asked."""
        has_come, self._has_come = self._has_come, False
        return has_come

    def heed(self, reply: Reply) -> None:
        """A reply has come; those to other questions are passed over."""
        for kind, asked in self._open.items():
            if reply.request in asked.numbers:
                self._replies[kind] = reply
                self._has_come = True

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
