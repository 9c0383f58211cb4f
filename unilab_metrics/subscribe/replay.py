"""Plays a run again from its files, in its own time or faster, as if it went on just now.

A viewer sees the same as of a live run: entries as they came, and announcements beside them. The
time of a run is the aggregator's clock in its updates; what lies between two attempts is not waited
for, nor is a stretch in which that clock went back.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from unilab_metrics.errors import UnilabMetricsError
from unilab_metrics.storage.console_pieces import console_piece
from unilab_metrics.storage.path_text import shown_path
from unilab_metrics.subscribe.asking import NoAnswer
from unilab_metrics.subscribe.earlier_runs import EarlierRuns
from unilab_metrics.subscribe.history_record import HistoryRecord
from unilab_metrics.subscribe.landmarks import Landmarks
from unilab_metrics.subscribe.pace import Pace, bounded
from unilab_metrics.subscribe.past_files import PastFiles, Stretch
from unilab_metrics.subscribe.seen_alerts import SeenAlerts
from unilab_metrics.subscribe.unread_history import refuse_unread, unwritten_history
from unilab_metrics.subscribe.values_before import snapshot_before
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_schema.control import Epoch, Head
from unilab_schema.identity import RunInfo
from unilab_schema.requests import Blocks, Console, ConsolePiece, RankValues, Snapshot
from unilab_schema.updates import AttemptOpened, RunEnded, Update

if TYPE_CHECKING:
    from typing_extensions import Self

_BEFORE = 600
"""Entries before the place where it begins, so that the first picture is whole."""
_AHEAD = 1000
_MOST_AT_ONCE = 4000
"""Faster than this in one poll, and the run goes slower than was asked for."""
_TICK_S = 0.02
_MOST_TOLD = 16
"""Alerts, as announcements of a live run have."""
_NOBODY = Epoch(b"replay".ljust(16), 1)


class Replay:
    """Has the methods of a ``Subscriber``. Owned by one thread."""

    refusal: UnilabMetricsError | None = None

    def __init__(
        self,
        run_dir: Path,
        *,
        speed: float = 1.0,
        iteration: int | None = None,
        is_still: bool = False,
        told_s: Callable[[int], float | None] = lambda _attempt: None,
    ) -> None:
        """``iteration``: begin where the run had come to it, by default at its start. ``is_still``:
        stand still there, by default at the run's end. ``told_s``: seconds of training that the run
        says of itself at the end of an attempt, if it does.

        Raises :class:`RunNotFoundError` while nothing of the history is written, ``NoLiveRunError``
        if nobody goes on with that, ``UnknownVersionError`` for one of another version,
        ``DamagedFileError`` if nothing of it can be read, and ``OSError``.
        """
        bus_dir = bus_directory(run_dir)
        self._run_dir = run_dir
        self._told_s = lru_cache(1)(told_s)
        self.earlier = EarlierRuns(run_dir)
        self._past = PastFiles(bus_dir)
        self._last = self._past.last()
        if not self._last:
            refuse_unread(run_dir)
            raise unwritten_history(run_dir)
        self._speed = bounded(speed)
        self._is_paused = is_still
        self._run = RunInfo()
        self._attempt = 1
        self._earlier_s = 0.0
        self.restarts = 0
        self.keeps_up = False
        self.late_s = 0.0
        self.passed_over = self.lost_entries = 0
        """Those that were passed over since it has gone to a place, because nobody can read them."""
        self._ahead: deque[HistoryRecord] = deque()
        self._read = 0
        self._at = 0
        self._newest: Update | None = None
        self._first: Update | None = None
        """Of the attempt of the newest one."""
        self._alerts = SeenAlerts()
        self._landmarks = Landmarks(self._past, self._last)
        self._first_iteration = self._landmarks.first_iteration()
        self._ended: RunEnded | None = None
        self._since_newest_s = 0.0
        self._played_s = time.monotonic()
        self._snapshot: Snapshot | None = None
        self._due: list[HistoryRecord] = []
        begin = self._last if is_still else 1
        self._go_to(begin if iteration is None else self._landmarks.sequence_of(iteration))

    @property
    def head(self) -> Head:
        """The announcement of this moment of the run."""
        newest = self._newest
        since_ns = round(self._since_newest_s * 1e9)
        ended, alerts = self._ended, self._alerts.open
        return Head(
            _NOBODY,
            self._at,
            self._at,
            self._attempt,
            self._run,
            shown_path(self._run_dir),
            (),
            (),
            (newest.sealed_mono_ns if newest is not None else 0) + since_ns,
            (newest.unix_ns if newest is not None else 0) + since_ns,
            ended.status if ended is not None and self._at >= self._last else None,
            alerts=alerts[-_MOST_TOLD:],
            alerts_open=len(alerts),
            training_s=self._training_s(),
            first_iteration=self._first_iteration,
            earlier_s=self._earlier_s,
            attempt_iteration=None if self._first is None else self._first.iteration,
        )

    def _training_s(self) -> float | None:
        """Rank 0's time at the first update of the attempt, and what has passed on the clock of the
        seals since: ranks need not wait for each other, and go on when rank 0 is done. At the end
        what the run says of itself, which is the most: an update may be sealed long after it."""
        newest = self._newest
        if newest is None:
            return None
        if self._first is None or self._first.attempt != newest.attempt:
            self._first = self._landmarks.first_of(newest.attempt) or newest
        since_ns = 0 if self._ended is not None else round(self._since_newest_s * 1e9)
        passed_ns = newest.sealed_mono_ns + since_ns - self._first.sealed_mono_ns
        training_s, told_s = self._first.elapsed_s + passed_ns / 1e9, self._told_s(newest.attempt)
        if told_s is None:
            return training_s
        has_ended = self._ended is not None and self._at >= self._last
        return told_s if has_ended else min(training_s, told_s)

    @property
    def connected(self) -> bool:
        """Whether it goes on; at the end of a run that did not say so, nobody speaks any more."""
        return self._at < self._last or self._ended is not None

    @property
    def cursor(self) -> int:
        """Update sequence up to which entries were handed over."""
        return self._at

    def newest(self) -> int:
        """The last update sequence of the run."""
        return self._last

    def snapshot(self) -> Snapshot | None:
        """The values of all tags from before the place where it began."""
        return self._snapshot

    def ranks(self, tags: tuple[str, ...]) -> RankValues | NoAnswer:
        """Nobody keeps what each rank has sent."""
        del tags
        return NoAnswer("only a live run tells the values of its ranks")

    def bins(self, tags: tuple[str, ...], after: int) -> Blocks:
        """As of a ``Subscriber``; also what has not been played yet."""
        return self._past.bins(tags, after)

    def stretch(
        self, after: int, limit: int, tags: tuple[str, ...] = (), kinds: tuple[int, ...] = ()
    ) -> Stretch:
        """As of a ``Subscriber``; also what has not been played yet."""
        return self._past.stretch(after, limit, tags, kinds)

    def console(self, asked: Console) -> ConsolePiece:
        """See ``Subscriber.console``."""
        return console_piece(self._run_dir, asked, own_only=False)

    @property
    def reads_files(self) -> bool:
        """Always."""
        return True

    def pace(self, speed: float | None, to: int | None, *, is_paused: bool | None) -> Pace:
        """Another ``speed``, whether it stands still, and the update sequence from which it goes
        on; ``None`` leaves each as it is."""
        self._advance()
        if speed is not None:
            self._speed = bounded(speed)
        if is_paused is not None:
            self._is_paused = is_paused
        if to is not None and to != self._at:
            self._go_to(to)
            self.restarts += 1
        return Pace(self._speed, self._is_paused, self._last)

    def poll(self, timeout_ms: float) -> list[HistoryRecord]:
        """The entries whose time has come; waits up to ``timeout_ms`` for the first one."""
        deadline_s = time.monotonic() + timeout_ms / 1000
        entries, self._due = self._due, []
        if entries:
            # What came without waiting then comes with them: a first picture needs an update.
            self._played_s = time.monotonic()
            entries += self._played()
        while not entries:
            self._advance()
            entries = self._played()
            remaining_s = deadline_s - time.monotonic()
            if entries or remaining_s <= 0:
                break
            time.sleep(min(remaining_s, _TICK_S))
        return entries

    def close(self) -> None:
        """Nothing stays open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _advance(self) -> None:
        now_s = time.monotonic()
        if not self._is_paused and self._at < self._last:
            self._since_newest_s += (now_s - self._played_s) * self._speed
        self._played_s = now_s

    def _played(self) -> list[HistoryRecord]:
        entries: list[HistoryRecord] = []
        while not self._is_paused and len(entries) < _MOST_AT_ONCE and self._has_ahead():
            entry = self._ahead[0].entry
            if isinstance(entry, Update) and self._newest is not None:
                wait_s = _seconds_between(self._newest, entry)
                if wait_s > self._since_newest_s:
                    break
                self._since_newest_s -= wait_s
            entries.append(self._take(self._ahead.popleft()))
        else:
            # As fast as it can be read, or at its end: what is missed is not caught up with.
            if entries:
                self._since_newest_s = 0.0
        return entries

    def _has_ahead(self) -> bool:
        if not self._ahead and self._read < self._last:
            found = self._past.stretch(self._read, _AHEAD)
            self.lost_entries += max(found.last - self._read, 0) - len(found.records)
            self._ahead.extend(found.records)
            self._read = found.last if found.last > self._read else self._last
        return bool(self._ahead)

    def _take(self, record: HistoryRecord) -> HistoryRecord:
        self._at = record.sequence
        entry = record.entry
        self._alerts.add(record.sequence, entry)
        if isinstance(entry, Update):
            self._newest = entry
        elif isinstance(entry, AttemptOpened):
            self._run, self._attempt = entry.run, entry.attempt
            self._earlier_s = entry.elapsed_s
        self._ended = entry if isinstance(entry, RunEnded) else None
        if not self._ahead and self._read >= self._last:
            self._at = self._last
        return record

    def _go_to(self, sequence: int) -> None:
        """What lies shortly before it is handed over at once."""
        sequence = min(max(sequence, 1), self._last)
        self._ahead.clear()
        self.lost_entries = 0
        self._newest, self._ended, self._since_newest_s = None, None, 0.0
        self._alerts = SeenAlerts()
        for record in self._past.stretch(0, 8).records:
            if isinstance(record.entry, AttemptOpened):
                self._take(record)
        self._read = self._at = max(sequence - _BEFORE, 0)
        self._snapshot = snapshot_before(self._past, self._read)
        self._due = []
        while self._has_ahead() and self._ahead[0].sequence <= sequence:
            self._due.append(self._take(self._ahead.popleft()))
        if self._newest is not None and self._newest.attempt != self._attempt:
            self._attempt = self._newest.attempt
            opened = self._landmarks.opened(self._attempt)
            if opened is not None:
                self._run, self._earlier_s = opened.run, opened.elapsed_s


def _seconds_between(earlier: Update, later: Update) -> float:
    if earlier.attempt != later.attempt:
        return 0.0
    return max(later.sealed_mono_ns - earlier.sealed_mono_ns, 0) / 1e9
