"""Follows a run live, without gaps, over restarts of its aggregator, to the end of its files.

Heads say how far the run is, fetches bring what is missing: a head that got lost costs
nothing. While no aggregator lives, the history files are read instead.
"""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import TYPE_CHECKING

from unilab_metrics.errors import UnilabMetricsError
from unilab_metrics.subscribe.answers import Answers
from unilab_metrics.subscribe.asking import NoAnswer, Send
from unilab_metrics.subscribe.conversation import Conversation
from unilab_metrics.subscribe.earlier_runs import EarlierRuns
from unilab_metrics.subscribe.files import Files
from unilab_metrics.subscribe.history import HistoryRecord
from unilab_metrics.subscribe.line import Line
from unilab_metrics.subscribe.past_files import Stretch
from unilab_metrics.subscribe.position import Position
from unilab_metrics.subscribe.welcome import await_welcome
from unilab_metrics.subscribe.whereabouts import RunAtAddress, RunOnDisk, Whereabouts
from unilab_metrics.transport import keys
from unilab_metrics.transport.allow_list import WATCH
from unilab_schema.control import Head
from unilab_schema.updates import Update

if TYPE_CHECKING:
    from typing_extensions import Self

    from unilab_schema.requests import Blocks, Console, ConsolePiece, RankValues, Snapshot

_RESEND_MS = 20


class Subscriber:
    """Owned by one thread, which calls everything here; close it, or use it with ``with``."""

    restarts = 0
    """What is followed live never goes on from another place."""

    def __init__(
        self, where: Whereabouts, *, after: int | None = None, recent: int | None = None
    ) -> None:
        """See :meth:`attach` and :meth:`attach_remote`. ``keeps_up``: updates may be passed over,
        and of an ended run its end is enough; to be set by whoever shows how the run is now."""
        self.keeps_up = False
        self._where = where
        self._line = Line(where)
        self._position = Position(after, recent)
        self._files = Files(where.bus_dir)
        requests = itertools.count(1)
        self._answers = Answers(requests.__next__, where.bus_dir)
        self._talk = Conversation(self._line, self._position, self._answers, requests.__next__)
        self.earlier = EarlierRuns(where.bus_dir.parent if where.bus_dir is not None else None)

    @classmethod
    def attach(cls, run_dir: Path, *, after: int | None = None, recent: int | None = None) -> Self:
        """Follow the run in ``run_dir``, live or ended.

        The first entry is the one behind ``after`` (0 for the whole history); by default the last
        ``recent`` entries of a live run, ``None``: those that ``joining`` finds; of an ended one
        all, or if it is very long, its first and last. Raises as :meth:`RunOnDisk.check` does."""
        where = RunOnDisk(run_dir)
        where.check()
        return cls(where, after=after, recent=recent)

    @classmethod
    def attach_remote(
        cls,
        endpoint: str,
        key_file: Path,
        *,
        after: int | None = None,
        recent: int | None = None,
    ) -> Self:
        """Follow the live run that listens at ``tcp://HOST:PORT``, without its directory.

        ``key_file``: a copy of the run's ``bus/keys/watch.key``, or a pair whose public half is
        on the run's allow-list. Waits up to 3 s for the connection; then raises
        ``KeyFileError`` or ``KeyRefusedError`` for a key that is not taken, ``NoLiveRunError``
        if no run answers, and :class:`EndpointError` for what is no such address.
        """
        where = RunAtAddress(endpoint, keys.read_client(key_file, WATCH), key_file)
        made = cls(where, after=after, recent=recent)
        try:
            made._find_aggregator()
            if made._line.connection is not None:
                await_welcome(made._line.connection, where.endpoint, key_file)
        except BaseException:
            made.close()
            raise
        return made

    @property
    def head(self) -> Head | None:
        """The newest announcement; kept after the aggregator is gone."""
        return self._position.head

    @property
    def cursor(self) -> int | None:
        """Update sequence up to which entries were returned; ``None`` before joining."""
        return self._position.cursor

    @property
    def lost_entries(self) -> int:
        """Update sequences that could not be delivered."""
        return self._position.lost_entries

    @property
    def passed_over(self) -> int:
        """Update sequences that were not read because of ``keeps_up``: updates and points alone."""
        return self._position.passed_over

    @property
    def damaged(self) -> int:
        """Records, and stretches of files, that could not be read."""
        return self._position.damaged

    @property
    def connected(self) -> bool:
        """Whether an aggregator announced something within ``line.SILENT_S``."""
        return self._line.is_heard

    @property
    def late_s(self) -> float:
        """How long the newest announcement was on its way, at least; see ``lateness``."""
        return self._talk.late_s

    @property
    def refusal(self) -> UnilabMetricsError | None:
        """Why the aggregator does not let us in any more; asked again every ``line.REFUSED_S``."""
        return self._line.refusal

    @property
    def data_age_s(self) -> float | None:
        """Seconds since the newest update was sealed; ``None`` before the first one.

        On the aggregator's monotonic clock; on wall clocks where no aggregator was heard.
        """
        if self._talk.newest is None:
            return None
        head_age_s = time.monotonic() - self._line.heard_at_s
        return self._position.age_s(self._talk.newest, head_age_s + self.late_s, time.time())

    def snapshot(self) -> Snapshot | None:
        """Newest value of every tag as of joining; ``None`` until it is there, and for an ended
        run, whose whole history comes from :meth:`poll`."""
        return self._talk.values.snapshot

    def ranks(self, tags: tuple[str, ...] = ()) -> RankValues | NoAnswer | None:
        """Each source's newest values of ``tags`` (empty: the first hundred that there are). Does
        not wait: ``None`` until :meth:`poll` has brought the answer; ask again until then. The
        newest question counts. Only a live run has an answer."""
        return self._answers.ranks(tags, self.head, self._ask_now())

    def console(self, asked: Console) -> ConsolePiece | NoAnswer | None:
        """A piece of what the training has printed. As :meth:`bins`."""
        return self._answers.console(asked, self.head, self._ask_now())

    @property
    def reads_files(self) -> bool:
        """Whether :meth:`poll` has looked at the files last, because no aggregator is known."""
        return self._line.connection is None and self._where.bus_dir is not None

    def pace(self, speed: float | None, to: int | None, *, is_paused: bool | None) -> None:
        """Nobody says how fast a training goes; see ``Replay``."""

    def newest(self) -> int:
        """The newest update sequence of the run that is known of."""
        return max(self.cursor or 0, self.head.update if self.head is not None else 0)

    def bins(self, tags: tuple[str, ...], after: int) -> Blocks | NoAnswer | None:
        """A part of the history behind the update sequence ``after`` in brief: whole blocks, with
        these tags. As :meth:`ranks`; without an aggregator from files, at once. Raises ``OSError``."""
        return self._answers.bins(tags, after, self.head, self._ask_now())

    def stretch(
        self, after: int, limit: int, tags: tuple[str, ...] = (), kinds: tuple[int, ...] = ()
    ) -> Stretch | NoAnswer | None:
        """At most ``limit`` entries of the history behind the update sequence ``after``, fewer
        where they are large or come slowly; of ``tags`` and ``kinds`` as in ``Fetch``. As
        :meth:`bins`; also raises ``UnknownVersionError``."""
        return self._answers.stretch(after, limit, tags, kinds, self.head, self._ask_now())

    def poll(self, timeout_ms: float) -> list[HistoryRecord]:
        """New entries in order, each once; waits up to ``timeout_ms`` for the first one, or for the
        answer to a question.

        After a loss of the aggregator's node, entries that were not durable yet are replaced
        by others, which come with the same sequences. Raises ``UnknownVersionError`` and
        ``EndpointError`` for versions that we do not know, ``ConnectionFileError`` for a file
        that is not ours or damaged, and ``OSError``.
        """
        deadline_s = time.monotonic() + timeout_ms / 1000
        while True:
            self._find_aggregator()
            connection = self._line.connection
            if connection is not None:
                entries = self._talk.receive(connection, keeps_up=self.keeps_up)
            else:
                entries = self._files.read(self._position, is_end_enough=self.keeps_up)
            remaining_ms = (deadline_s - time.monotonic()) * 1000
            if entries or remaining_ms <= 0 or self._answers.has_come():
                break
            self._wait(remaining_ms)
        for record in entries:
            if isinstance(record.entry, Update):
                self._talk.newest = record.entry
        return entries

    def close(self) -> None:
        """Close sockets and files, and the way to the run; idempotent."""
        self._line.disconnect()
        self._where.close()
        self._files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _ask_now(self) -> Send | None:
        connection = self._line.connection
        return connection.ask if connection is not None and self.connected else None

    def _find_aggregator(self) -> None:
        head = self._position.head
        if self._line.search(
            self._talk.hear_last, has_ended=head is not None and head.ended is not None
        ):
            self._files.close()
            self._talk.begin_anew()

    def _wait(self, remaining_ms: float) -> None:
        wait_ms = min(remaining_ms, self._line.until_search_ms + 1)
        connection = self._line.connection
        if connection is None:
            time.sleep(wait_ms / 1000)
        else:
            # A request that could not be sent yet is tried again soon.
            is_unsent = self._talk.has_unsent
            connection.wait(min(wait_ms, _RESEND_MS) if is_unsent else wait_ms)
