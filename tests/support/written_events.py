"""Event files written from a few records, and read back."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tensorboard.backend.event_processing import (
    event_accumulator,
)
from tensorboard.backend.event_processing.event_file_loader import (
    EventFileLoader,
)

from unilab_metrics.subscribe.history import HistoryRecord
from unilab_metrics.write.backends.event_encoding import read_mark
from unilab_metrics.write.backends.event_files import own_files, read_records
from unilab_metrics.write.backends.tensorboard import TensorBoardBackend
from unilab_schema.frames import BlobFrame, Point, PointsFrame
from unilab_schema.identity import RunInfo, SourceKey
from unilab_schema.updates import AttemptOpened, BlobUpdate, PointsUpdate, Update

LEARNER = SourceKey(0, "learner")


def opened(sequence: int, attempt: int = 1) -> HistoryRecord:
    return HistoryRecord(sequence, AttemptOpened(attempt, 1, RunInfo("ppo")), ())


def update(
    sequence: int, iteration: int, values: dict[str, float], attempt: int = 1
) -> HistoryRecord:
    packed = struct.pack(f"<{len(values)}d", *values.values())
    unix_ns = 1_700_000_000_123_456_789 + iteration
    entry = Update(attempt, iteration, None, unix_ns, 0, 0.0, 1, 1, 0, packed)
    return HistoryRecord(sequence, entry, tuple(values))


def point(sequence: int, tag: str, step: int = 0) -> HistoryRecord:
    entry = PointsUpdate(1, LEARNER, PointsFrame((Point(tag, float(sequence), step, 5),)))
    return HistoryRecord(sequence, entry, ())


def blob(sequence: int, kind: Any, data: bytes, tag: str = "a tag") -> HistoryRecord:
    frame = BlobFrame(sequence, kind, tag, 3, 5, data)
    return HistoryRecord(sequence, BlobUpdate(1, LEARNER, frame), ())


def write(run_dir: Path, *batches: list[HistoryRecord]) -> None:
    backend = TensorBoardBackend(run_dir)
    backend.open()
    for batch in batches:
        backend.write(batch)
        backend.flush()
    backend.close()


def accumulate(run_dir: Path) -> event_accumulator.EventAccumulator:
    accumulator = event_accumulator.EventAccumulator(
        str(run_dir), size_guidance=dict.fromkeys(event_accumulator.DEFAULT_SIZE_GUIDANCE, 0)
    )
    return accumulator.Reload()


def points(run_dir: Path, tag: str) -> list[tuple[int, float]]:
    return [(event.step, event.value) for event in accumulate(run_dir).Scalars(tag)]


def raw_events(run_dir: Path) -> Iterator[Any]:
    for path in own_files(run_dir):
        yield from EventFileLoader(str(path)).Load()


def marks(run_dir: Path) -> list[int]:
    found = [read_mark(record.data) for path in own_files(run_dir) for record in read_records(path)]
    return [mark.update for mark in found if mark is not None]
