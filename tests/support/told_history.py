"""A history as it is told to a backend."""

from __future__ import annotations

import struct
from typing import Any

from unilab_metrics.subscribe.history import HistoryRecord
from unilab_metrics.write.items import Item, Scalars
from unilab_metrics.write.position import Position
from unilab_metrics.write.selection import Selection
from unilab_schema.frames import BlobFrame, EventFrame, Point, PointsFrame
from unilab_schema.identity import RunInfo, SourceKey
from unilab_schema.updates import (
    AttemptOpened,
    BlobUpdate,
    EventUpdate,
    PointsUpdate,
    RunEnded,
    Supplement,
    Update,
)

LEARNER = SourceKey(0, "learner")


class History:
    """Numbers records as an aggregator does."""

    def __init__(self) -> None:
        self.records: list[HistoryRecord] = []
        self.attempt = 0

    def add(self, entry: Any, tags: tuple[str, ...] = ()) -> HistoryRecord:
        record = HistoryRecord(len(self.records) + 1, entry, tags)
        self.records.append(record)
        return record

    def open(self, algorithm: str = "ppo", axis: Any = "iteration") -> HistoryRecord:
        self.attempt += 1
        run = RunInfo(algorithm=algorithm, step_axis=axis)
        return self.add(AttemptOpened(self.attempt, 1, run))

    def update(
        self, iteration: int, values: dict[str, float] | None = None, env_steps: int | None = None
    ) -> HistoryRecord:
        values = {"Loss/value": float(iteration)} if values is None else values
        packed = struct.pack(f"<{len(values)}d", *values.values())
        entry = Update(
            self.attempt, iteration, env_steps, iteration, 0, iteration * 1.5, 1, 1, 0, packed
        )
        return self.add(entry, tuple(values))

    def supplement(self, iteration: int, attempt: int | None = None) -> HistoryRecord:
        number = self.attempt if attempt is None else attempt
        packed = struct.pack("<d", 0.5)
        return self.add(Supplement(number, iteration, None, 1, 0, 0.0, 0, packed), ("Loss/late",))

    def event(self, kind: str = "status", text: str = "x") -> HistoryRecord:
        return self.add(EventUpdate(self.attempt, LEARNER, EventFrame(kind, text, 0, 7)))

    def point(self, step: int) -> HistoryRecord:
        frame = PointsFrame((Point("eval/score", 1.0, step, 9),))
        return self.add(PointsUpdate(self.attempt, LEARNER, frame))

    def chunk(self, blob: int, part: int, parts: int, kind: Any = "text") -> HistoryRecord:
        frame = BlobFrame(blob, kind, f"blob/{blob}", 3, 5, b"%d" % part, part, parts, "image/png")
        return self.add(BlobUpdate(self.attempt, LEARNER, frame))

    def end(self) -> HistoryRecord:
        return self.add(RunEnded(self.attempt, "completed", 1))


def take(history: History, selection: Selection | None = None, after: int = 0) -> list[Item]:
    selection = selection or Selection(Position())
    return [
        item
        for record in history.records
        if record.sequence > after
        for item in selection.take(record)
    ]


def steps(items: list[Item]) -> list[int]:
    return [item.step for item in items if isinstance(item, Scalars)]
