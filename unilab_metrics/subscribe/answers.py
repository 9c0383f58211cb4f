"""What is asked of a run beyond its new entries: of its aggregator, or of its files."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from unilab_metrics.storage.console_pieces import console_piece
from unilab_metrics.subscribe.asking import Asking, NoAnswer, Send, completed, ranks_question
from unilab_metrics.subscribe.past_files import PastFiles, Stretch
from unilab_metrics.subscribe.position import records_in
from unilab_schema.control import Head
from unilab_schema.requests import (
    Blocks,
    Console,
    ConsolePiece,
    Fetch,
    History,
    RankValues,
    Reply,
    Updates,
)

_NO_PAST = "the past of a run elsewhere is known only while its aggregator answers"
_NO_CONSOLE = "what a run elsewhere prints is known only while its aggregator answers"
_NO_RANKS = "only a live run tells the values of its ranks"
_UNHEARD = "the run is not heard at the moment; they are asked for as soon as it is"
_SLOW_S = 1.0
"""A stretch that takes longer is asked for in smaller parts, so that some of it is there soon."""
_LEAST, _FIRST, _MOST = 16, 128, 10_000


class Answers:
    """Nothing here waits: ``None`` while an answer is on its way. Owned by one thread."""

    def __init__(self, next_number: Callable[[], int], bus_dir: Path | None) -> None:
        """``next_number``: of requests; ``bus_dir``: the run's, ``None`` where it is not here."""
        self._asking = Asking(next_number)
        self._bus_dir = bus_dir
        self._past: PastFiles | None = None
        self._most = _FIRST

    def has_come(self) -> bool:
        """Whether an answer has come since this was last asked."""
        return self._asking.has_come()

    def heed(self, reply: Reply) -> None:
        """A reply of the aggregator."""
        self._asking.heed(reply)

    def forget(self) -> None:
        """Another aggregator: what was on its way is asked anew, and files are looked at anew."""
        self._asking.forget()
        self._past = None

    def ranks(
        self, tags: tuple[str, ...], head: Head | None, send: Send | None
    ) -> RankValues | NoAnswer | None:
        """``send``: to a live aggregator, ``None`` without one."""
        if send is None:
            return _unheard(head, _UNHEARD) if _goes_on(head) else NoAnswer(_NO_RANKS)
        reply = self._asking.put(ranks_question(tags), head, time.monotonic(), send)
        if isinstance(reply, RankValues):
            return completed(reply, tags)
        return reply if isinstance(reply, NoAnswer) else None

    def bins(
        self, tags: tuple[str, ...], after: int, head: Head | None, send: Send | None
    ) -> Blocks | NoAnswer | None:
        """See ``Subscriber.bins``."""
        if send is not None:
            reply = self._asking.put(History(0, after, tags), head, time.monotonic(), send)
            return reply if isinstance(reply, Blocks | NoAnswer) else None
        past = self._files()
        return past.bins(tags, after) if past is not None else _unheard(head, _NO_PAST)

    def stretch(
        self,
        after: int,
        limit: int,
        tags: tuple[str, ...],
        kinds: tuple[int, ...],
        head: Head | None,
        send: Send | None,
    ) -> Stretch | NoAnswer | None:
        """See ``Subscriber.stretch``."""
        if send is not None:
            asked = Fetch(0, after, min(limit, self._most), tags, kinds)
            reply = self._asking.put(asked, head, time.monotonic(), send)
            if isinstance(reply, Updates):
                records = tuple(records_in(reply, {}).records)
                self._most = next_limit(self._most, len(records), self._asking.took_s)
                return Stretch(records, reply.last)
            return reply if isinstance(reply, NoAnswer) else None
        past = self._files()
        if past is None:
            return _unheard(head, _NO_PAST)
        return past.stretch(after, limit, tags, kinds)

    def console(
        self, asked: Console, head: Head | None, send: Send | None
    ) -> ConsolePiece | NoAnswer | None:
        """See ``Subscriber.console``. Where the run's directory is here its files are read: they
        are there without an aggregator too."""
        if self._bus_dir is not None:
            return console_piece(self._bus_dir.parent, asked, own_only=False)
        if send is None:
            return _unheard(head, _NO_CONSOLE)
        reply = self._asking.put(asked, head, time.monotonic(), send)
        return reply if isinstance(reply, ConsolePiece | NoAnswer) else None

    def _files(self) -> PastFiles | None:
        if self._past is None and self._bus_dir is not None:
            self._past = PastFiles(self._bus_dir)
        return self._past


def next_limit(limit: int, count: int, took_s: float) -> int:
    """Of entries that are asked for at once, after so many of them took so long."""
    if took_s > _SLOW_S and count:
        return max(int(min(limit, count) * _SLOW_S / took_s), _LEAST)
    return min(2 * limit, _MOST) if took_s < _SLOW_S / 2 and 2 * count > limit else limit


def _goes_on(head: Head | None) -> bool:
    return head is not None and head.ended is None


def _unheard(head: Head | None, text: str) -> NoAnswer:
    """Of a run that has ended nobody will be heard again."""
    return NoAnswer(text, may_come=head is None or _goes_on(head))
