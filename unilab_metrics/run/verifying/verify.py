"""Proof that a run lost and changed nothing: spools, wal, history and backend agree.

The wal is folded once more and must give the history (``verify_journal``). The history is read
with the reader and turned into points with the rules that the writer has; the event files are
read back byte by byte. All of it goes by one record at a time, so that a run of any length
fits. A killed process's own count of what it dropped is a lower bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from unilab_metrics.aggregate.folding.refused_frames import REFUSED_FRAME
from unilab_metrics.errors import ExitCode, RunNotFoundError, StorageError, VerificationError
from unilab_metrics.run.bus_settings import read_settings
from unilab_metrics.run.summary import read_summary
from unilab_metrics.run.verifying.damaged_files import damaged_segments, in_files, unread_files
from unilab_metrics.run.verifying.event_points import Point, held_position, marked_points
from unilab_metrics.run.verifying.verify_journal import JournalFacts, verify_journal
from unilab_metrics.storage.lease import settled_pid
from unilab_metrics.subscribe.history import (
    HISTORY_KINDS,
    HISTORY_PREFIX,
    HistoryReader,
    HistoryRecord,
)
from unilab_metrics.transport.rendezvous import aggregator_lease, bus_directory
from unilab_metrics.wording import counted
from unilab_metrics.write.items import Scalar, Scalars
from unilab_metrics.write.position import Position
from unilab_metrics.write.selection import Selection
from unilab_schema.updates import AttemptOpened, HistoryEntry, RunEnded, Update, UpdateLayout

_TENSORBOARD = "tensorboard"


class HistoryFacts(NamedTuple):
    """``updates``: the sealed iterations among the ``entries``. ``ended``: the status of the
    last attempt, ``None`` while it runs."""

    entries: int
    updates: int
    ended: str | None


class AttemptFacts(NamedTuple):
    """``iterations``: sealed ones. ``ended``: its status, ``None`` while it runs."""

    attempt: int
    iterations: int
    ended: str | None


class BackendFacts(NamedTuple):
    """``update``: the last one that the backend holds; ``is_compared``: whether its points were
    read back."""

    name: str
    update: int
    is_compared: bool


class Verified(NamedTuple):
    """A run that passed. ``behind``: history entries that the event files of a run that has not
    ended, or is live, may still lack, if it has any. ``lost_frames`` and ``dropped_calls``: what
    never reached the history, ``None`` if the run left no summary. ``journal``: ``None`` without a
    wal. ``is_live``: whether an aggregator or a writer is at work, so that this holds as far as it
    has come. ``unread``: files of the run that are there and cannot be read, and why, without which
    the proof is not whole."""

    history: HistoryFacts
    points_per_tag: dict[str, int]
    behind: int
    lost_frames: int | None
    dropped_calls: dict[str, int] | None
    attempts: tuple[AttemptFacts, ...] = ()
    backends: tuple[BackendFacts, ...] = ()
    journal: JournalFacts | None = None
    is_live: bool = False
    unread: tuple[str, ...] = ()


class DamagedHistoryError(StorageError):
    """Bytes of the history that cannot be read. Facts: ``path``, ``places``."""

    exit_code = ExitCode.DAMAGED

    def __init__(self, bus_dir: Path, places: int) -> None:
        where = counted(places, "place")
        names = damaged_segments(bus_dir, HISTORY_PREFIX, HISTORY_KINDS)
        super().__init__(bus_dir, f"the history is damaged in {where}{in_files(names)}")
        self.places = places


def verify_run(run_dir: Path, *, log_interval: int = 1) -> Verified:
    """Compare a run's spools, journal and event files. ``log_interval``: as the run had it.

    Raises ``VerificationError`` at the first difference, ``DamagedHistoryError``,
    ``DamagedWalError``, ``RunNotFoundError``, ``UnknownVersionError`` and ``OSError``.
    """
    bus_dir = bus_directory(run_dir)
    if not bus_dir.is_dir():
        raise RunNotFoundError(run_dir, "holds no run")
    if _is_growing(run_dir):
        return _verify(run_dir, log_interval, is_live=True)
    try:
        return _verify(run_dir, log_interval, is_live=False)
    except (StorageError, VerificationError):
        if not _is_growing(run_dir):
            raise
        # It was taken up again meanwhile.
        return _verify(run_dir, log_interval, is_live=True)


def _is_growing(run_dir: Path) -> bool:
    """Whether an aggregator or a writer is at work, so that what is read later holds more."""
    leases = [aggregator_lease(run_dir), bus_directory(run_dir) / f"writer-{_TENSORBOARD}.lease"]
    return any(settled_pid(lease) is not None for lease in leases)


def _verify(run_dir: Path, log_interval: int, *, is_live: bool) -> Verified:
    bus_dir = bus_directory(run_dir)
    # The backend first: the history that is read after it holds all that the backend does.
    held = held_position(run_dir)
    position = held.position or Position()
    history = _History(bus_dir, position.update, log_interval, is_live=is_live)
    found = marked_points(run_dir, position) if held.position else iter(())
    counts = _compare(history.points(), found)
    backends = _backends(run_dir, held.position)
    if not any(backend.is_compared for backend in backends):
        history.behind = 0
    if history.ended is not None and history.behind and not is_live:
        raise VerificationError(
            f"tensorboard lacks the last {_entries(history.behind)}; complete it with "
            f"`unilab-metrics write {run_dir}`"
        )
    if history.ended is not None and held.unmarked and not is_live:
        points = counted(held.unmarked, "point")
        raise VerificationError(f"tensorboard holds {points} beyond its last mark")
    journal = verify_journal(run_dir, is_live=is_live)
    lost, drops = _losses(run_dir)
    facts = HistoryFacts(history.entries, history.updates, history.ended)
    return Verified(
        facts,
        counts,
        history.behind,
        lost,
        drops,
        tuple(history.attempts.values()),
        backends,
        journal,
        is_live,
        tuple(f"{path}: {why}" for path, why in unread_files(run_dir).items()),
    )


def _backends(run_dir: Path, held: Position | None) -> tuple[BackendFacts, ...]:
    """Those that the run was started with, and event files that somebody has written since."""
    # What a backend elsewhere holds only its writer knows, who told the summary.
    bus = cast("dict[str, Any]", (read_summary(run_dir) or {}).get("bus") or {})
    told = cast("dict[str, int]", bus.get("backends") or {})
    files = [] if held is None else [_TENSORBOARD]
    names = dict.fromkeys([*read_settings(run_dir).backends, *told, *files])
    return tuple(
        BackendFacts(name, 0 if held is None else held.update, is_compared=True)
        if name == _TENSORBOARD
        else BackendFacts(name, told.get(name, 0), is_compared=False)
        for name in names
    )


class _History:
    """The history's points up to ``held``; the counts are right when all of them were taken."""

    def __init__(self, bus_dir: Path, held: int, log_interval: int, *, is_live: bool) -> None:
        self._bus_dir = bus_dir
        self._held = held
        self._is_live = is_live
        self._selection = Selection(Position(), log_interval)
        self._steps: dict[str, int] = {}
        self.entries = self.updates = self.behind = 0
        self.ended: str | None = None
        self.attempts: dict[int, AttemptFacts] = {}

    def points(self) -> Iterator[Point]:
        with HistoryReader(self._bus_dir) as reader:
            while records := reader.poll(1000):
                # Before a hole is taken for a mistake of whoever wrote it.
                self._check_damage(reader)
                for record in records:
                    yield from self._take(record)
            self._check_damage(reader)
            at_end = 0 if self._is_live else reader.damaged_at_end()
            if at_end:
                raise DamagedHistoryError(self._bus_dir, at_end)
            if reader.lost_entries:
                raise VerificationError(f"the history lacks {_entries(reader.lost_entries)}")

    def _check_damage(self, reader: HistoryReader) -> None:
        if reader.damaged:
            raise DamagedHistoryError(self._bus_dir, reader.damaged)

    def _take(self, record: HistoryRecord) -> list[Point]:
        self.entries += 1
        if record.sequence != self.entries:
            raise VerificationError(
                f"the history has entry {self.entries - 1} and then {record.sequence}"
            )
        self._follow(record.entry)
        if record.sequence > self._held:
            self.behind += 1
            return []
        points = list(_points(self._selection, record))
        if isinstance(record.entry, Update):
            self._check_steps(points)
        return points

    def _follow(self, entry: HistoryEntry) -> None:
        if isinstance(entry, UpdateLayout):
            return
        # What follows an attempt's end takes it back.
        self.ended = entry.status if isinstance(entry, RunEnded) else None
        known = self.attempts.get(entry.attempt, AttemptFacts(entry.attempt, 0, None))
        known = known._replace(ended=self.ended)
        if isinstance(entry, Update):
            self.updates += 1
            known = known._replace(iterations=known.iterations + 1)
        elif isinstance(entry, AttemptOpened):
            self._steps.clear()
        self.attempts[known.attempt] = known

    def _check_steps(self, points: list[Point]) -> None:
        for point in points:
            before = self._steps.get(point.tag, point.step)
            if point.step < before:
                raise VerificationError(
                    f"the step of {point.tag} falls from {before} to {point.step}"
                )
            self._steps[point.tag] = point.step


def _points(selection: Selection, record: HistoryRecord) -> Iterator[Point]:
    for item in selection.take(record):
        if isinstance(item, Scalars):
            with np.errstate(over="ignore"):
                values = cast("list[float]", item.values.astype(np.float32).tolist())
            for tag, value in zip(item.tags, values, strict=True):
                yield Point(tag, item.step, value)
        elif isinstance(item, Scalar):
            with np.errstate(over="ignore"):
                yield Point(item.tag, item.step, float(np.float32(item.value)))


def _compare(expected: Iterator[Point], found: Iterator[Point]) -> dict[str, int]:
    """Points per tag. Takes all of both, or raises at the first difference."""
    counts: Counter[str] = Counter()
    for number, (wanted, got) in enumerate(zip_longest(expected, found)):
        if wanted is None:
            raise VerificationError(f"only tensorboard has point {number}, {_text(got)}")
        if got is None:
            raise VerificationError(f"only the history has point {number}, {_text(wanted)}")
        if wanted != got and not _same_nan(wanted, got):
            raise VerificationError(
                f"point {number}: the history has {_text(wanted)}, tensorboard has {_text(got)}"
            )
        counts[got.tag] += 1
    return counts


def _same_nan(wanted: Point, got: Point) -> bool:
    # NaN is the one value that differs from itself.
    both_nan = wanted.value != wanted.value and got.value != got.value
    return both_nan and wanted[:2] == got[:2]


def _text(point: Point) -> str:
    return f"{point.tag} at step {point.step} = {point.value!r}"


def _entries(number: int) -> str:
    return counted(number, "entry", "entries")


def _losses(run_dir: Path) -> tuple[int | None, dict[str, int] | None]:
    bus = (read_summary(run_dir) or {}).get("bus")
    if not isinstance(bus, dict):
        return None, None
    fields = cast("dict[str, Any]", bus)
    drops: dict[str, int] = dict(fields.get("dropped_calls", {}))
    refused = int(fields.get("quarantined_frames") or 0)
    if refused:
        drops[REFUSED_FRAME] = refused
    return int(fields.get("lost_frames", 0)) + refused, drops
