"""What TensorBoard event files of ours hold, read back for checking: points per tag."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from unilab_metrics.write.backends.event_encoding import read_mark
from unilab_metrics.write.backends.event_files import own_files, read_records
from unilab_metrics.write.backends.protos import Event
from unilab_metrics.write.position import Position


class Point(NamedTuple):
    """A value as a reader of the file gets it: float32."""

    tag: str
    step: int
    value: float


class EventPoints(NamedTuple):
    """``points``: in the order of the files. ``position``: how far the history is in them,
    ``None`` if no writer of ours has finished a write. ``unmarked``: points after that."""

    points: list[Point]
    position: Position | None
    unmarked: int


def read_points(run_dir: Path) -> EventPoints:
    """The points of the newest journal in all our event files of a run. Raises ``OSError``."""
    by_journal: dict[str, list[Point]] = {}
    position: Position | None = None
    pending: list[Point] = []
    for data in _events(own_files(run_dir)):
        mark = read_mark(data)
        if mark is None:
            pending += _points(data)
        else:
            position = mark
            by_journal.setdefault(mark.journal, []).extend(pending)
            pending = []
    points = by_journal.get(position.journal, []) if position else []
    return EventPoints(points, position, len(pending))


def points_per_tag(points: Iterable[Point]) -> dict[str, int]:
    """How many points each tag has, in the order in which the tags appeared."""
    counts: dict[str, int] = {}
    for point in points:
        counts[point.tag] = counts.get(point.tag, 0) + 1
    return counts


def _events(paths: Iterable[Path]) -> Iterator[memoryview]:
    for path in paths:
        for record in read_records(path):
            yield record.data


def _points(data: memoryview) -> Iterator[Point]:
    event: Any = Event.FromString(bytes(data))
    for value in event.summary.value:
        if value.HasField("simple_value"):
            yield Point(value.tag, event.step, value.simple_value)
