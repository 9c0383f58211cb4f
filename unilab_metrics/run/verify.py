"""Proof that a run lost and changed nothing: its history against what its backend holds.

The history is read with the reader and turned into points with the rules that the writer
has; the event files are read back byte by byte. What was lost before the history is named
from ``run_summary.json``: a killed process's own count is a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from unilab_metrics.errors import RunNotFoundError, VerificationError
from unilab_metrics.run.event_points import EventPoints, Point, points_per_tag, read_points
from unilab_metrics.run.summary import read_summary
from unilab_metrics.subscribe.history import HistoryReader, HistoryRecord
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_metrics.write.items import Scalar, Scalars
from unilab_metrics.write.position import Position
from unilab_metrics.write.selection import Selection
from unilab_schema.updates import AttemptOpened, RunEnded, Update


class HistoryFacts(NamedTuple):
    """``updates``: sealed iterations. ``last``: last update sequence. ``ended``: the status of
    the last attempt, ``None`` while it runs. ``points``: what a backend must hold of it."""

    entries: int
    updates: int
    last: int
    ended: str | None
    points: list[Point]


class Verified(NamedTuple):
    """A run that passed. ``behind``: history entries that the backend of a run that has not
    ended may still lack. ``lost_frames`` and ``dropped_calls``: what never reached the
    history, ``None`` if the run left no summary."""

    history: HistoryFacts
    points_per_tag: dict[str, int]
    behind: int
    lost_frames: int | None
    dropped_calls: dict[str, int] | None


def verify_run(run_dir: Path, *, log_interval: int = 1) -> Verified:
    """Compare a run's history with its event files. ``log_interval``: as the run had it.

    Raises ``VerificationError`` at the first difference, ``RunNotFoundError``,
    ``UnknownVersionError`` and ``OSError``.
    """
    bus_dir = bus_directory(run_dir)
    if not bus_dir.is_dir():
        raise RunNotFoundError(run_dir, "holds no run")
    found = read_points(run_dir)
    held = found.position.update if found.position else 0
    history, behind = _read_history(bus_dir, held, log_interval)
    if found.position is None and history.points:
        raise VerificationError("tensorboard holds no update of the history")
    if history.ended is not None and behind:
        raise VerificationError(f"tensorboard lacks the last {behind} entries of the history")
    if history.ended is not None and found.unmarked:
        raise VerificationError(f"tensorboard holds {found.unmarked} points beyond its last mark")
    _compare(history.points, found)
    lost, drops = _losses(run_dir)
    return Verified(history, points_per_tag(found.points), behind, lost, drops)


def report(verified: Verified) -> list[str]:
    """The result for people. Pure."""
    counts = verified.points_per_tag.values()
    history = verified.history
    spread = f", {span(counts)} each" if counts else ""
    lines = [
        f"history      {history.entries:,} entries, {history.updates:,} iterations, gap-free, "
        + (f"{history.ended}" if history.ended else "not ended"),
        f"tensorboard  {len(counts)} tags, {sum(counts):,} points{spread}, equal to the history"
        + (f", {verified.behind} entries behind" if verified.behind else ""),
    ]
    if verified.lost_frames is None:
        lines.append("losses       unknown: the run left no summary")
    else:
        dropped = dropped_text(verified.dropped_calls or {})
        lines.append(f"losses       {verified.lost_frames} frames lost, dropped: {dropped}")
    return lines


def span(counts: Any) -> str:
    """The least and the most of some counts: ``600 to 1,500``, or one number. Pure."""
    least, most = min(counts), max(counts)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def dropped_text(drops: dict[str, int]) -> str:
    """Drops by reason in one line. Pure."""
    return ", ".join(f"{count:,} {reason}" for reason, count in sorted(drops.items())) or "nothing"


def _read_history(bus_dir: Path, held: int, log_interval: int) -> tuple[HistoryFacts, int]:
    """The history, and how many of its entries lie beyond ``held``, whose points are left out."""
    selection = Selection(Position(), log_interval)
    points: list[Point] = []
    steps: dict[str, int] = {}
    entries = updates = last = behind = 0
    ended: str | None = None
    for record in _records(bus_dir):
        if record.sequence != last + 1:
            raise VerificationError(f"the history has {last} and then {record.sequence}")
        last = record.sequence
        entries += 1
        match record.entry:
            case Update():
                updates += 1
            case RunEnded():
                ended = record.entry.status
            case AttemptOpened():
                ended = None
                steps.clear()
            case _:
                pass
        if record.sequence > held:
            behind += 1
            continue
        new = list(_points(selection, record))
        if isinstance(record.entry, Update):
            _check_steps(new, steps)
        points += new
    return HistoryFacts(entries, updates, last, ended, points), behind


def _records(bus_dir: Path) -> Iterator[HistoryRecord]:
    with HistoryReader(bus_dir) as reader:
        while records := reader.poll(4096):
            yield from records
        if reader.damaged or reader.lost_entries:
            raise VerificationError(
                f"the history is damaged in {reader.damaged} places and lacks "
                f"{reader.lost_entries} entries"
            )


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


def _check_steps(points: list[Point], steps: dict[str, int]) -> None:
    for point in points:
        before = steps.get(point.tag)
        if before is not None and point.step < before:
            raise VerificationError(f"the step of {point.tag} falls from {before} to {point.step}")
        steps[point.tag] = point.step


def _compare(expected: list[Point], found: EventPoints) -> None:
    for index, (wanted, got) in enumerate(zip(expected, found.points, strict=False)):
        if wanted != got and not _same_nan(wanted, got):
            raise VerificationError(
                f"point {index}: the history has {_text(wanted)}, tensorboard has {_text(got)}"
            )
    if len(expected) != len(found.points):
        more = expected if len(expected) > len(found.points) else found.points
        first = more[min(len(expected), len(found.points))]
        owner = "the history" if more is expected else "tensorboard"
        raise VerificationError(
            f"the history has {len(expected)} points, tensorboard {len(found.points)}; the "
            f"first that only {owner} has is {_text(first)}"
        )


def _same_nan(wanted: Point, got: Point) -> bool:
    # NaN is the one value that differs from itself.
    both_nan = wanted.value != wanted.value and got.value != got.value
    return both_nan and wanted[:2] == got[:2]


def _text(point: Point) -> str:
    return f"{point.tag} at step {point.step} = {point.value!r}"


def _losses(run_dir: Path) -> tuple[int | None, dict[str, int] | None]:
    bus = (read_summary(run_dir) or {}).get("bus")
    if not isinstance(bus, dict):
        return None, None
    fields = cast("dict[str, Any]", bus)
    return int(fields.get("lost_frames", 0)), dict(fields.get("dropped_calls", {}))
