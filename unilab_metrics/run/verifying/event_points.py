"""What TensorBoard event files of ours hold, read back for checking, one point at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from unilab_metrics.write.backends import protos
from unilab_metrics.write.backends.event_encoding import read_mark
from unilab_metrics.write.backends.event_files import own_files, read_records
from unilab_metrics.write.position import Position


class Point(NamedTuple):
    """A value as a reader of the file gets it: float32."""

    tag: str
    step: int
    value: float


class Held(NamedTuple):
    """``position``: how far the history is in the files, ``None`` if no writer of ours has
    finished a write. ``unmarked``: points after that, which a kill has left."""

    position: Position | None
    unmarked: int


def held_position(run_dir: Path) -> Held:
    """Reads all our event files of a run. Raises ``OSError``."""
    position: Position | None = None
    unmarked = 0
    for data in _events(run_dir):
        mark = read_mark(data)
        if mark is None:
            unmarked += sum(1 for _ in _points(data))
        else:
            position, unmarked = mark, 0
    return Held(position, unmarked)


def marked_points(run_dir: Path, position: Position) -> Iterator[Point]:
    """The points that lie before a mark of the position's journal, in the order of the files,
    up to that position: a writer that is at work goes on meanwhile."""
    pending: list[Point] = []
    for data in _events(run_dir):
        mark = read_mark(data)
        if mark is None:
            pending += _points(data)
            continue
        if mark.journal == position.journal:
            if mark.update > position.update:
                return
            yield from pending
        pending.clear()


def points_per_tag(run_dir: Path) -> dict[str, int]:
    """How many points each tag has in the files, in the order in which the tags appeared."""
    position = held_position(run_dir).position
    if position is None:
        return {}
    return Counter(point.tag for point in marked_points(run_dir, position))


def _events(run_dir: Path) -> Iterator[memoryview]:
    for path in own_files(run_dir):
        for record in read_records(path):
            yield record.data


def _points(data: memoryview) -> Iterator[Point]:
    event: Any = protos.Event.FromString(bytes(data))
    for value in event.summary.value:
        if value.HasField("simple_value"):
            yield Point(value.tag, event.step, value.simple_value)
