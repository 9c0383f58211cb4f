"""What is asked of a run beyond its new entries: of its aggregator, or of its files."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from unilab_metrics.subscribe.asking import Asking, NoAnswer, Send, completed, ranks_question
from unilab_metrics.subscribe.past_files import PastFiles, Stretch
from unilab_metrics.subscribe.position import records_in
from unilab_schema.control import Blocks, Fetch, Head, History, RankValues, Reply, Updates

_NO_PAST = "the past of a run at an address is known only while it answers"


class Answers:
    """Nothing here waits: ``None`` while an answer is on its way. Owned by one thread."""

    def __init__(self, next_number: Callable[[], int], bus_dir: Path | None) -> None:
        """``next_number``: of requests; ``bus_dir``: the run's, ``None`` where it is not here."""
        self._asking = Asking(next_number)
        self._bus_dir = bus_dir
        self._past: PastFiles | None = None

    @property
    def has_reply(self) -> bool:
        """Whether an answer waits for its question to be put again."""
        return self._asking.has_reply

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
            return NoAnswer("only a live run tells the values of its ranks")
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
        return past.bins(tags, after) if past is not None else NoAnswer(_NO_PAST)

    def stretch(
        self, after: int, limit: int, head: Head | None, send: Send | None
    ) -> Stretch | NoAnswer | None:
        """See ``Subscriber.stretch``."""
        if send is not None:
            reply = self._asking.put(Fetch(0, after, limit), head, time.monotonic(), send)
            if isinstance(reply, Updates):
                return Stretch(tuple(records_in(reply, {}).records), reply.last)
            return reply if isinstance(reply, NoAnswer) else None
        past = self._files()
        return past.stretch(after, limit) if past is not None else NoAnswer(_NO_PAST)

    def _files(self) -> PastFiles | None:
        if self._past is None and self._bus_dir is not None:
            self._past = PastFiles(self._bus_dir)
        return self._past
