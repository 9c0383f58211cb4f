"""Hand-made history entries, announcements and pictures for tests of what a screen computes."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from msgspec import structs

from unilab_metrics.subscribe.history import HistoryRecord
from unilab_schema.control import Epoch, Head, SourceStatus
from unilab_schema.frames import EventFrame
from unilab_schema.identity import LEARNER, RunInfo, SourceKey
from unilab_schema.updates import EventUpdate, Supplement, Update
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.picture import Picture
from unilab_sidecar.series import Series

SAC = RunInfo("sac", "task", "numpy", "env_steps", 100, world_size=2)
EPOCH = Epoch(b"j" * 16, 1)
S = 1_000_000_000


def pack(values: Mapping[str, float]) -> bytes:
    return struct.pack(f"<{len(values)}d", *values.values())


def update(
    sequence: int,
    values: Mapping[str, float],
    *,
    sealed_s: float | None = None,
    iteration: int | None = None,
    attempt: int = 1,
    elapsed_s: float = 1.0,
) -> HistoryRecord:
    sealed_ns = round((sequence if sealed_s is None else sealed_s) * S)
    entry = Update(
        attempt, sequence if iteration is None else iteration, 10 * sequence, 0, sealed_ns,
        elapsed_s, 2, 2, 1, pack(values),
    )  # fmt: skip
    return HistoryRecord(sequence, entry, tuple(values))


def supplement(
    sequence: int, iteration: int, values: Mapping[str, float], sealed_s: float
) -> HistoryRecord:
    entry = Supplement(1, iteration, 0, 0, round(sealed_s * S), 1.0, 1, pack(values))
    return HistoryRecord(sequence, entry, tuple(values))


def event(
    sequence: int,
    kind: str,
    text: str = "",
    *,
    rank: int = 0,
    at_s: float = 0.0,
    **data: float | str,
) -> HistoryRecord:
    frame = EventFrame(kind, text, 0, round(at_s * S), None, dict(data))
    return HistoryRecord(sequence, EventUpdate(1, SourceKey(rank, "learner"), frame), ())


def head(mono_s: float, *, run: RunInfo = SAC, ended: str | None = None, attempt: int = 1) -> Head:
    return Head(
        EPOCH, 1, 1, attempt, run, "run", (), (), round(mono_s * S), round(mono_s * S), ended
    )


def learner(
    rank: int, iteration: int | None, state: str = "live", age_s: float = 0.1
) -> SourceStatus:
    return SourceStatus(
        SourceKey(rank, LEARNER), 1, "h", state, age_s, age_s, 5, 0, iteration=iteration
    )


def announced(training_s: float, *sources: SourceStatus, mono_s: float = 15.0) -> Head:
    return structs.replace(head(mono_s), sources=sources, training_s=training_s)


def picture(*records: HistoryRecord, at: Head | None = None, age_s: float = 0.0) -> Picture:
    series = Series()
    series.add(Batch(records, at or head(0.0), connected=True, head_age_s=age_s))
    return series.picture()
