"""What a subscriber asks its run's aggregator for by itself, and hears from it: announcements, the
entries that it lacks, and the newest value of every tag."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from unilab_metrics.subscribe.answers import Answers
from unilab_metrics.subscribe.connection import BusConnection
from unilab_metrics.subscribe.fetching import Fetching
from unilab_metrics.subscribe.history import HistoryRecord
from unilab_metrics.subscribe.joining import Joining
from unilab_metrics.subscribe.lateness import Lateness
from unilab_metrics.subscribe.line import Line
from unilab_metrics.subscribe.newest_values import NewestValues
from unilab_metrics.subscribe.passing_over import PassingOver
from unilab_metrics.subscribe.position import Position
from unilab_schema.control import Head
from unilab_schema.requests import Latest, Snapshot, Updates
from unilab_schema.updates import Update


class Conversation:
    """Goes on over restarts of the aggregator. Owned by the subscriber's thread; never waits."""

    def __init__(
        self, line: Line, position: Position, answers: Answers, next_request: Callable[[], int]
    ) -> None:
        """``answers``: to what others have asked, in messages that come between ours; they share the
        numbers of ``next_request``."""
        self.newest: Update | None = None
        """Set by whoever hands it over, from files too."""
        self.values = NewestValues()
        self._line, self._position, self._answers = line, position, answers
        self._next_request = next_request
        self._fetching = Fetching()
        self._joining = Joining()
        self._passing = PassingOver()
        self._lateness = Lateness()

    @property
    def late_s(self) -> float:
        """How long the newest announcement was on its way, at least; see ``lateness``."""
        return self._lateness.late_s

    @property
    def has_unsent(self) -> bool:
        """Whether something is to be asked that has not been."""
        is_lacking = self._position.is_behind and not self._fetching.is_waiting
        return is_lacking or self._position.is_joining

    def begin_anew(self) -> None:
        """Over a new connection."""
        self._fetching.forget()
        self._joining = Joining()
        self.values.unheard()
        self._answers.forget()

    def hear_last(self) -> None:
        """The last words of an aggregator that is gone; what it has answered, the files say."""
        if (connection := self._line.connection) is not None:
            for head in connection.receive().heads:
                self._heed(head)

    def receive(self, connection: BusConnection, *, keeps_up: bool) -> list[HistoryRecord]:
        """New entries, in order; asks for what comes next. ``keeps_up``: updates may be passed
        over."""
        received = connection.receive()
        for head in received.heads:
            self._heed(head)
        entries: list[HistoryRecord] = []
        for reply in received.replies:
            self._answers.heed(reply)
            if isinstance(reply, Snapshot):
                self.values.take(reply)
            elif isinstance(reply, Updates) and self._position.is_joining:
                self._position.cursor = self._joining.take(reply, time.monotonic())
            elif isinstance(reply, Updates):
                entries += self._fetching.take(reply, self._position, time.monotonic())
        if self._position.head is not None:
            self._ask(connection, keeps_up=keeps_up)
        return entries

    def _heed(self, head: Head) -> None:
        known = self._position.head
        if not self._position.heed(head):
            return
        if known is None or known.epoch != head.epoch:
            self._fetching.forget()
            self._joining = Joining()
            self._lateness = Lateness()
        self._line.heard_at_s = time.monotonic()
        self._lateness.heard(head.mono_ns, self._line.heard_at_s)
        if known is not None and known.epoch.journal != head.epoch.journal:
            self.newest = None
            self.values.forget()

    def _ask(self, connection: BusConnection, *, keeps_up: bool) -> None:
        now_s, late_s = time.monotonic(), self.late_s
        if self._lateness.is_renewal_due(now_s):
            connection.listen_anew()
            self._lateness.renewed(now_s)
        connection.listen(is_wanted=self._lateness.is_listening(now_s))
        if keeps_up and self._passing.look(self._position, self.newest, now_s, late_s):
            self.values.renew()
        if self.values.is_due(now_s) and connection.ask(Latest(self._next_request())):
            self.values.asked(now_s)
        by = self._joining if self._position.is_joining else self._fetching
        if by is self._joining:
            fetch = self._joining.due(self._position, now_s)
        else:
            fetch = self._fetching.due(self._position, now_s, late_s)
        if fetch is not None:
            fetch = msgspec.structs.replace(fetch, request=self._next_request())
            if connection.ask(fetch):
                by.sent(fetch.request, now_s)
