"""Plays a run again from its files, in its own time or faster, as if it went on just now.

A viewer sees the same as of a live run: entries as they came, and announcements beside them. The
time of a run is the aggregator's clock in its updates; what lies between two attempts is not waited
for, nor is a stretch in which that clock went back.
"""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unilab_metrics.errors import DamagedFileError, RunNotFoundError, UnilabMetricsError
from unilab_metrics.storage.path_text import shown_path
from unilab_metrics.storage.segments import list_segments
from unilab_metrics.subscribe.asking import NoAnswer
from unilab_metrics.subscribe.earlier_runs import EarlierRuns
from unilab_metrics.subscribe.history import HISTORY_PREFIX
from unilab_metrics.subscribe.history_record import HistoryRecord
from unilab_metrics.subscribe.pace import Pace, bounded
from unilab_metrics.subscribe.past_files import PastFiles, Stretch
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_schema.control import Blocks, Epoch, Head, RankValues, Snapshot
from unilab_schema.identity import RunInfo
from unilab_schema.updates import BLOCK_ENTRIES, AttemptOpened, RunEnded, Update

if TYPE_CHECKING:
    from typing_extensions import Self

_BEFORE = 600
"""Entries before the place where it begins, so that the first picture is whole."""
_AHEAD = 1000
_MOST_AT_ONCE = 4000
"""Faster than this in one poll, and the run goes slower than was asked for."""
_TICK_S = 0.02
_NOBODY = Epoch(b"replay".ljust(16), 1)


class Replay:
    """Has the methods of a ``Subscriber``. Owned by one thread."""

    refusal: UnilabMetricsError | None = None

    def __init__(self, run_dir: Path, *, speed: float = 1.0, iteration: int | None = None) -> None:
        """``iteration``: begin where the run had come to it, by default at its start.

        Raises :class:`RunNotFoundError` where there is no history, ``UnknownVersionError`` for one
        of another version, :class:`DamagedFileError` if nothing of it can be read, and ``OSError``.
        """
        bus_dir = bus_directory(run_dir)
        segments = list_segments(bus_dir, HISTORY_PREFIX)
        if not segments:
            raise RunNotFoundError(run_dir, "no history of a run")
        self._run_dir = run_dir
        self.earlier = EarlierRuns(run_dir)
        self._past = PastFiles(bus_dir)
        self._last = self._past.last()
        if not self._last:
            raise DamagedFileError(segments[-1], 0, "nothing in it can be read")
        self._speed = bounded(speed)
        self._is_paused = False
        self._run = RunInfo()
        self._attempt = 1
        self.restarts = 0
        self._ahead: deque[HistoryRecord] = deque()
        self._read = 0
        self._at = 0
        self._newest: Update | None = None
        self._ended: RunEnded | None = None
        self._since_newest_s = 0.0
        self._played_s = time.monotonic()
        self._snapshot: Snapshot | None = None
        self._due: list[HistoryRecord] = []
        self._go_to(1 if iteration is None else self._sequence_of(iteration))

    @property
    def head(self) -> Head:
        """The announcement of this moment of the run."""
        newest = self._newest
        since_ns = round(self._since_newest_s * 1e9)
        ended = self._ended
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
        )

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

    def stretch(self, after: int, limit: int) -> Stretch:
        """As of a ``Subscriber``; also what has not been played yet."""
        return self._past.stretch(after, limit)

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
        return Pace(self._speed, self._is_paused)

    def poll(self, timeout_ms: float) -> list[HistoryRecord]:
        """The entries whose time has come; waits up to ``timeout_ms`` for the first one."""
        deadline_s = time.monotonic() + timeout_ms / 1000
        entries, self._due = self._due, []
        if entries:
            self._played_s = time.monotonic()
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
            self._ahead.extend(found.records)
            self._read = found.last if found.last > self._read else self._last
        return bool(self._ahead)

    def _take(self, record: HistoryRecord) -> HistoryRecord:
        self._at = record.sequence
        entry = record.entry
        if isinstance(entry, Update):
            self._newest = entry
        elif isinstance(entry, AttemptOpened):
            self._run, self._attempt = entry.run, entry.attempt
        self._ended = entry if isinstance(entry, RunEnded) else None
        if not self._ahead and self._read >= self._last:
            self._at = self._last
        return record

    def _go_to(self, sequence: int) -> None:
        """What lies shortly before it is handed over at once."""
        sequence = min(max(sequence, 1), self._last)
        self._ahead.clear()
        self._newest, self._ended, self._since_newest_s = None, None, 0.0
        for record in self._past.stretch(0, 8).records:
            if isinstance(record.entry, AttemptOpened):
                self._take(record)
        self._read = max(sequence - _BEFORE, 0)
        self._snapshot = self._snapshot_before(self._read)
        self._due = []
        while self._has_ahead() and self._ahead[0].sequence <= sequence:
            self._due.append(self._take(self._ahead.popleft()))
        if self._newest is not None:
            self._attempt = self._newest.attempt

    def _snapshot_before(self, sequence: int) -> Snapshot | None:
        first = sequence // BLOCK_ENTRIES * BLOCK_ENTRIES + 1 - BLOCK_ENTRIES
        if first < 1:
            return None
        blocks = [one for one in self._past.bins((), first - 1).blocks if one.first == first]
        tags = tuple(tag for block in blocks for tag in block.tags)
        values = b"".join(block.latest for block in blocks)
        updates = np.full(len(tags), first + BLOCK_ENTRIES - 1, dtype="<i8").tobytes()
        return Snapshot(0, _NOBODY, first + BLOCK_ENTRIES - 1, tags, values, updates)

    def _sequence_of(self, iteration: int) -> int:
        """Where the run came to an iteration; its end if it never did."""
        low, high = 0, self._last
        while low < high:
            middle = (low + high) // 2
            found = self._iteration_behind(middle)
            if found is None or found.iteration >= iteration:
                high = middle
            else:
                low = middle + 1
        records = self._past.stretch(low, _AHEAD).records
        updates = (r.sequence for r in records if isinstance(r.entry, Update))
        return next(updates, self._last)

    def _iteration_behind(self, sequence: int) -> Update | None:
        while True:
            found = self._past.stretch(sequence, 16)
            for record in found.records:
                if isinstance(record.entry, Update):
                    return record.entry
            if found.last <= sequence:
                return None
            sequence = found.last


def _seconds_between(earlier: Update, later: Update) -> float:
    if earlier.attempt != later.attempt:
        return 0.0
    return max(later.sealed_mono_ns - earlier.sealed_mono_ns, 0) / 1e9
