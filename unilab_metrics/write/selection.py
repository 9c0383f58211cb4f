"""What of the history a backend gets, and at which step; pure, owned by one thread.

Records wait, unwritten and not covered by the position, in two cases: after an update that
``log_interval`` passes over, because it is written after all if it was the last one; and
between the opening of a later attempt and its first update, because readers forget
everything from that update's step on when they meet the restart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from unilab_metrics.write.blobs import BlobAssembly
from unilab_metrics.write.items import Histogram, Image, Item, Restart, Scalar, Scalars, Text
from unilab_metrics.write.position import Position
from unilab_metrics.write.tags import TagFilter
from unilab_schema.frames import EventFrame
from unilab_schema.updates import (
    AttemptOpened,
    BlobUpdate,
    EventUpdate,
    PointsUpdate,
    RunEnded,
    Supplement,
    Update,
)

if TYPE_CHECKING:
    from unilab_metrics.subscribe.history import HistoryRecord

ITERATION_TAG = "Train/iteration"
CONFIG_TAG = "config"
MAX_WAITING = 4096
"""Records that may wait; one more, and they are written as if nothing were to come."""


class Selection:
    """Turns history records into items, from a position on."""

    def __init__(self, position: Position, log_interval: int = 1) -> None:
        """``log_interval``: write the iterations that it divides, and the last one."""
        self._at = position
        self._written = position.update
        self._log_interval = max(log_interval, 1)
        self._filter = TagFilter(position.algorithm)
        self._blobs = BlobAssembly()
        self._waiting: list[HistoryRecord] = []
        self._skipped: Update | None = None
        self._has_ended = False
        self.stale_values = 0
        """Values of earlier attempts that came after a later one had opened; not written."""

    @property
    def position(self) -> Position:
        """What may be marked once every item so far is in the backend."""
        update = self._at.update
        first_open = self._blobs.first_open_sequence
        replay = update if first_open is None else min(update, first_open - 1)
        return msgspec.structs.replace(self._at, replay=replay)

    @property
    def given_up_blobs(self) -> int:
        """Blobs whose rest never came; once the run has ended, also those whose rest has not
        come yet: what is found after the end may hold it."""
        return self._blobs.given_up + (self._blobs.open_count if self._has_ended else 0)

    def take(self, record: HistoryRecord) -> list[Item]:
        """The items that become due with this record; records come in order, once."""
        if record.sequence <= self._written:
            # Replayed: its items are in the backend, its chunks are not remembered.
            if isinstance(record.entry, BlobUpdate):
                self._blobs.add(record.entry.source, record.entry.frame, record.sequence)
            return []
        items: list[Item] = []
        if self._waiting and not self._ends_waiting(record):
            self._waiting.append(record)
            return items
        items.extend(self._end_waiting(record))
        if self._starts_waiting(record):
            self._waiting.append(record)
        else:
            items.extend(self._pass(record))
        return items

    def _starts_waiting(self, record: HistoryRecord) -> bool:
        entry = record.entry
        if isinstance(entry, Update):
            if entry.attempt < self._at.attempt or entry.iteration % self._log_interval == 0:
                return False
            self._skipped = entry
            return True
        return self._at.reopened and isinstance(entry, PointsUpdate | EventUpdate | BlobUpdate)

    def _ends_waiting(self, record: HistoryRecord) -> bool:
        entry = record.entry
        if isinstance(entry, Update):
            return entry.attempt >= self._at.attempt
        return isinstance(entry, AttemptOpened | RunEnded) or len(self._waiting) >= MAX_WAITING

    def _end_waiting(self, record: HistoryRecord) -> Iterator[Item]:
        waiting, self._waiting = self._waiting, []
        skipped, self._skipped = self._skipped, None
        entry = record.entry
        if isinstance(entry, Update):
            yield from self._restart(entry)
        overtaken = skipped is not None and isinstance(entry, Update)
        for earlier in waiting:
            if overtaken and earlier.entry is skipped:
                self._reach(earlier.sequence)
            else:
                yield from self._pass(earlier)

    def _pass(self, record: HistoryRecord) -> Iterator[Item]:
        entry = record.entry
        match entry:
            case Update():
                yield from self._restart(entry)
                yield from self._update(record, entry)
            case Supplement():
                yield from self._supplement(record, entry)
            case PointsUpdate():
                for point in entry.frame.points:
                    if self._filter.persists(point.tag):
                        yield Scalar(point.step, point.unix_ns, point.tag, point.value)
            case BlobUpdate():
                yield from self._chunk(entry, record.sequence)
            case EventUpdate():
                if entry.frame.kind == "config":
                    yield _config(entry.frame)
            case AttemptOpened():
                self._open_attempt(entry)
            case _:
                pass
        self._has_ended = isinstance(entry, RunEnded)
        self._reach(record.sequence)

    def _reach(self, sequence: int) -> None:
        # Layouts carry sequence 0.
        after = self._at.update + 1
        if sequence >= after:
            lost = self._at.lost or (after if sequence > after else 0)
            self._at = msgspec.structs.replace(self._at, update=sequence, lost=lost)

    def _open_attempt(self, entry: AttemptOpened) -> None:
        later = entry.attempt > self._at.attempt
        self._at = msgspec.structs.replace(
            self._at,
            attempt=max(entry.attempt, self._at.attempt),
            algorithm=entry.run.algorithm,
            step_axis=entry.run.step_axis,
            reopened=self._at.reopened or (later and self._at.iteration is not None),
        )
        self._filter = TagFilter(entry.run.algorithm)
        if later:
            self._blobs.give_up()

    def _restart(self, entry: Update) -> Iterator[Restart]:
        at = self._at
        if not at.reopened or entry.attempt < at.attempt:
            return
        step = self._step(entry)
        self._at = msgspec.structs.replace(at, reopened=False, step=step)
        if (at.iteration is not None and entry.iteration <= at.iteration) or step < at.step:
            yield Restart(step, entry.unix_ns)

    def _update(self, record: HistoryRecord, entry: Update) -> Iterator[Scalars]:
        at = self._at
        if entry.attempt < at.attempt:
            self.stale_values += len(record.tags)
            return
        # A step never falls within an attempt, also when nobody counts environment steps
        # any more.
        step = max(self._step(entry), at.step)
        self._at = msgspec.structs.replace(
            at, attempt=entry.attempt, iteration=entry.iteration, step=step
        )
        yield from self._scalars(record, entry, step)

    def _supplement(self, record: HistoryRecord, entry: Supplement) -> Iterator[Scalars]:
        at = self._at
        if entry.attempt < at.attempt:
            self.stale_values += len(record.tags)
            return
        newest = entry.iteration == at.iteration
        if newest or entry.iteration % self._log_interval == 0:
            yield from self._scalars(record, entry, at.step if newest else self._step(entry))

    def _scalars(
        self, record: HistoryRecord, entry: Update | Supplement, step: int
    ) -> Iterator[Scalars]:
        tags, values = self._filter.choose(record.tags, record.values())
        if self._counts_nothing(entry) and ITERATION_TAG in tags:
            # The step is the iteration itself while the counter stands at 0.
            kept = [position for position, tag in enumerate(tags) if tag != ITERATION_TAG]
            tags, values = tuple(tags[position] for position in kept), values[kept]
        if tags:
            yield Scalars(step, entry.unix_ns, tags, values)

    def _counts_nothing(self, entry: Update | Supplement) -> bool:
        return self._at.step_axis == "env_steps" and not entry.env_steps

    def _step(self, entry: Update | Supplement) -> int:
        if self._at.step_axis == "wall_time":
            return int(entry.elapsed_s)
        if self._at.step_axis == "env_steps" and entry.env_steps:
            return entry.env_steps
        return entry.iteration

    def _chunk(self, entry: BlobUpdate, sequence: int) -> Iterator[Item]:
        frame = entry.frame
        data = self._blobs.add(entry.source, frame, sequence)
        if data is None:
            return
        match frame.kind:
            case "text":
                yield Text(frame.step, frame.unix_ns, frame.tag, _text(data))
            case "json":
                yield Text(frame.step, frame.unix_ns, frame.tag, _fenced(_text(data)))
            case "histogram":
                yield Histogram(frame.step, frame.unix_ns, frame.tag, data)
            case "image":
                yield Image(frame.step, frame.unix_ns, frame.tag, data, frame.mime)


def _config(frame: EventFrame) -> Text:
    text = frame.text or msgspec.json.format(msgspec.json.encode(frame.data)).decode()
    return Text(frame.iteration or 0, frame.unix_ns, CONFIG_TAG, _fenced(text))


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def _fenced(text: str) -> str:
    return f"```\n{text}\n```"
