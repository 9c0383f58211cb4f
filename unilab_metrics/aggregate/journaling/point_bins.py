"""The points among the entries of a block, in brief. Pure.

Points lie on axes of their own, so tags whose steps and times differ are told apart: a record of
its own for all tags that came together.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from unilab_metrics.aggregate.folding.pieces import ends_of_pieces
from unilab_schema.frames import Point
from unilab_schema.updates import AttemptOpened, BinBlock, PointsUpdate

MOST_TAGS = 16_384
"""Of one block. What comes beyond is in the history, and in no block: points are not bounded by the
tags that a run may have, and whoever invents names must not fill the memory."""
_FIGURES = 6


class _Axes(NamedTuple):
    """From and to."""

    step: tuple[int, int]
    unix_ns: tuple[int, int]
    elapsed_s: tuple[float, float]

    def reaching(self, step: int, unix_ns: int, elapsed_s: float) -> _Axes:
        return _Axes(
            (min(self.step[0], step), max(self.step[1], step)),
            (min(self.unix_ns[0], unix_ns), max(self.unix_ns[1], unix_ns)),
            (_lower(self.elapsed_s[0], elapsed_s), _higher(self.elapsed_s[1], elapsed_s)),
        )


class _Bin(msgspec.Struct):
    axes: _Axes
    latest: float
    minimum: float = math.inf
    maximum: float = -math.inf
    mean: float = 0.0
    count: int = 0
    not_finite: int = 0


class PointBins:
    """Of the block that is being filled."""

    def __init__(self) -> None:
        self._bins: dict[str, _Bin] = {}
        self.attempt = 0
        """Of the newest point, 0 before there is one."""

    def add(self, update: PointsUpdate, opened: AttemptOpened | None) -> None:
        """Take points into account. ``opened``: the start of their attempt, from which their time
        counts."""
        self.attempt = update.attempt
        for point in update.frame.points:
            elapsed_s = math.nan
            if opened is not None and opened.attempt == update.attempt:
                elapsed_s = opened.elapsed_s + (point.unix_ns - opened.unix_ns) / 1e9
            self._add(point, elapsed_s)

    def _add(self, point: Point, elapsed_s: float) -> None:
        step, unix_ns, value = point.step, point.unix_ns, point.value
        known = self._bins.get(point.tag)
        if known is None:
            if len(self._bins) >= MOST_TAGS:
                return
            axes = _Axes((step, step), (unix_ns, unix_ns), (elapsed_s, elapsed_s))
            known = self._bins[point.tag] = _Bin(axes, value)
        known.axes = known.axes.reaching(step, unix_ns, elapsed_s)
        known.latest = value
        if not math.isfinite(value):
            known.not_finite += 1
            return
        known.count += 1
        known.minimum, known.maximum = min(known.minimum, value), max(known.maximum, value)
        # Halves: the difference of very large values need not be a number.
        known.mean += 2 * ((value / 2 - known.mean / 2) / known.count)

    def blocks(self, first: int, last: int) -> list[BinBlock]:
        """The records, numbered as if there were no others; ``first`` and ``last``: of the
        block."""
        together: dict[_Axes, dict[str, _Bin]] = {}
        for tag, one in self._bins.items():
            together.setdefault(one.axes, {})[tag] = one
        return [
            BinBlock(
                first, last, self.attempt, axes.step, None, axes.unix_ns, axes.elapsed_s,
                tuple(part),
                _packed(one.minimum if one.count else math.nan for one in part.values()),
                _packed(one.maximum if one.count else math.nan for one in part.values()),
                _packed(one.mean if one.count else math.nan for one in part.values()),
                _packed(one.count for one in part.values()),
                _packed(one.latest for one in part.values()),
                not_finite=_packed(one.not_finite for one in part.values()),
                points=True,
            )
            for axes, group in together.items()
            for part in _pieces(group)
        ]  # fmt: skip


def _pieces(group: Mapping[str, _Bin]) -> Iterator[dict[str, _Bin]]:
    tags: Sequence[str] = list(group)
    start = 0
    for end in ends_of_pieces(tags, value_bytes=_FIGURES * 8):
        yield {tag: group[tag] for tag in tags[start:end]}
        start = end


def _lower(one: float, other: float) -> float:
    return other if math.isnan(one) or other < one else one


def _higher(one: float, other: float) -> float:
    return other if math.isnan(one) or other > one else one


def _packed(values: Iterable[float]) -> bytes:
    # Most are of one tag, for which an array would be dear.
    listed = list(values)
    return struct.pack(f"<{len(listed)}d", *listed)
