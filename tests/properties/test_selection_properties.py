"""Whatever the history holds and wherever a writer is killed, each value is written once."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unilab_metrics.subscribe.history import HistoryRecord
from unilab_metrics.write.items import Item, Restart, Scalars
from unilab_metrics.write.position import Position, decode_position, encode_position
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

SOURCES = (SourceKey(0, "learner"), SourceKey(1, "collector"))
KINDS = st.sampled_from(
    ["update"] * 6 + ["supplement", "points", "config", "status", "chunk", "chunk", "open", "end"]
)


@st.composite
def histories(draw: st.DrawFn) -> list[HistoryRecord]:
    """An order of entries that an aggregator could publish, and some that it would not."""
    records: list[HistoryRecord] = []
    attempt, iteration, env_steps = 1, 0, 0
    open_blobs: dict[SourceKey, tuple[int, int, int]] = {}
    run = RunInfo("sac", step_axis=draw(st.sampled_from(["iteration", "env_steps"])))

    def add(entry: Any, tags: tuple[str, ...] = ()) -> None:
        records.append(HistoryRecord(len(records) + 1, entry, tags))

    add(AttemptOpened(1, 1, run))
    for kind in draw(st.lists(KINDS, max_size=40)):
        number = len(records)
        packed = struct.pack("<2d", number, 1.0)
        tags = ("Loss/actor", "Terminal/num_envs")
        source = draw(st.sampled_from(SOURCES))
        if kind == "update":
            iteration += draw(st.integers(1, 2))
            env_steps += draw(st.sampled_from([0, 8]))
            add(Update(attempt, iteration, env_steps, number, 0, 0, 1, 1, 0, packed), tags)
        elif kind == "supplement":
            late = max(iteration - draw(st.integers(0, 3)), 1)
            of_attempt = max(attempt - draw(st.integers(0, 1)), 1)
            add(Supplement(of_attempt, late, env_steps, number, 0, 0, 0, packed), tags)
        elif kind == "points":
            add(PointsUpdate(attempt, source, PointsFrame((Point("p", number, number, 1),))))
        elif kind in {"config", "status"}:
            add(EventUpdate(attempt, source, EventFrame(kind, str(number), 0, 1)))
        elif kind == "chunk":
            blob, part, parts = open_blobs.pop(source, (number, 0, draw(st.integers(1, 3))))
            frame = BlobFrame(blob, "text", "t", number, 1, b"x", part, parts)
            add(BlobUpdate(attempt, source, frame))
            if part + 1 < parts:
                open_blobs[source] = (blob, part + 1, parts)
        elif kind == "open":
            attempt += 1
            iteration = max(iteration - draw(st.integers(0, 5)), 0)
            env_steps = max(env_steps - draw(st.sampled_from([0, 16])), 0)
            open_blobs.clear()
            add(AttemptOpened(attempt, 1, run))
        else:
            add(RunEnded(attempt, "completed", 1))
    add(RunEnded(attempt, "completed", 1))
    return records


@given(histories(), st.sampled_from([1, 2, 5]), st.lists(st.integers(1, 10), max_size=12))
def test_kills_after_any_flush_change_nothing(
    records: list[HistoryRecord], interval: int, batches: list[int]
) -> None:
    whole = take(Selection(Position(), interval), records)
    pieces: list[Item] = []
    position = Position()
    for size in [*batches, len(records)]:
        # One life of a writer: it reads a batch, flushes it, and is killed.
        selection = Selection(position, interval)
        start = min(position.update, position.replay)
        # At least one record more than the last life, or a long wait would never end.
        end = max(start + size, position.update + size)
        pieces += take(selection, records[start:end])
        position = decode_position(encode_position(selection.position))
    pieces += take(Selection(position, interval), records[min(position.update, position.replay) :])
    assert list(map(comparable, pieces)) == list(map(comparable, whole))


@given(histories(), st.sampled_from([1, 2, 5]))
def test_steps_fall_only_at_a_restart_and_to_its_step(
    records: list[HistoryRecord], interval: int
) -> None:
    updates = {record.sequence: record.entry for record in records}
    selection = Selection(Position(), interval)
    last = 0
    for record in records:
        for item in selection.take(record):
            if isinstance(item, Restart):
                last = item.step
            elif isinstance(item, Scalars) and isinstance(updates[int(item.values[0]) + 1], Update):
                assert item.step >= last
                last = item.step
    assert selection.position.update == records[-1].sequence
    # What is found after the end may hold the rest of a blob.
    is_whole = selection.position.replay == records[-1].sequence
    assert is_whole or selection.given_up_blobs


@given(histories())
def test_without_thinning_every_update_of_its_attempt_is_written(
    records: list[HistoryRecord],
) -> None:
    written = [
        int(item.values[0]) for item in take(Selection(Position()), records)
        if isinstance(item, Scalars)
    ]  # fmt: skip
    assert len(written) == len(set(written))
    expected = {record.sequence - 1 for record in records if isinstance(record.entry, Update)}
    assert expected <= set(written)


def take(selection: Selection, records: list[HistoryRecord]) -> list[Item]:
    return [item for record in records for item in selection.take(record)]


def comparable(item: Item) -> Any:
    return tuple(part.tolist() if isinstance(part, np.ndarray) else part for part in item)
