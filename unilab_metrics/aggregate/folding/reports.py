"""Collector reports: which iteration they belong to, and what holds between them. Pure.

A report belongs to the iteration of its rank whose interval (t(k-1), t(k)] on the node's
monotonic clock holds its stamp; alignment by arrival would put a third of the reports into
the wrong iteration. Within the iteration each tag is reduced over time; states (``last``,
``max``, ``min``) hold until the next report while the source lives, flows (``mean``,
``sum``) do not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import numpy as np

from unilab_metrics.aggregate.folding.packed import Float64s, unpack_values
from unilab_schema.metrics import OverTime

MAX_PENDING_REPORTS = 20_000
"""Reports that wait for an iteration of their rank; beyond, the oldest are folded into the
held state, so that a run whose learner stopped keeps bounded memory."""

MAX_PENDING_BYTES = 16 * 1024 * 1024
"""Of one source's pending reports; beyond, the same."""
_REPORT_BYTES = 200
"""Of a report beside its values, about."""

Part = tuple[float, float]
"""A total and its weight."""


class Report(msgspec.Struct, frozen=True, array_like=True):
    """One report as it came: an interned key set, packed totals, packed weights or empty."""

    mono_ns: int
    key_set: int
    values: bytes
    weights: bytes
    env_steps: int | None


class Vector(NamedTuple):
    """Tags with their totals, and weights unless all are 1."""

    tags: tuple[str, ...]
    totals: Float64s
    weights: Float64s | None


class Held(msgspec.Struct, array_like=True):
    """The states that hold: tag to (total, weight)."""

    states: dict[str, Part] = {}


class Reports(msgspec.Struct, array_like=True):
    """One collector source's pending reports, oldest first, and what holds of earlier ones."""

    pending: list[Report] = []
    held: Held = msgspec.field(default_factory=Held)
    env_steps: int | None = None
    overflowed: int = 0
    pending_bytes: int = 0

    def add(self, report: Report) -> None:
        """The next one."""
        self.pending.append(report)
        self.pending_bytes += _held_bytes(report)

    def overflow(self) -> list[Report]:
        """Remove and return the older half if too much is pending."""
        count = len(self.pending)
        if count <= MAX_PENDING_REPORTS and self.pending_bytes <= MAX_PENDING_BYTES:
            return []
        taken = self.pending[: (count + 1) // 2]
        del self.pending[: len(taken)]
        self.pending_bytes -= sum(map(_held_bytes, taken))
        self.overflowed += len(taken)
        return taken

    def take(self, until_mono_ns: int | None) -> list[Report]:
        """Remove and return the reports stamped up to ``until_mono_ns`` (``None``: all)."""
        pending = self.pending
        count = len(pending)
        if until_mono_ns is not None:
            # Stamps of one process on one clock never fall.
            count = next((i for i, r in enumerate(pending) if r.mono_ns > until_mono_ns), count)
        taken, self.pending = pending[:count], pending[count:]
        self.pending_bytes -= sum(map(_held_bytes, taken))
        for report in taken:
            if report.env_steps is not None:
                self.env_steps = report.env_steps
        return taken


def _held_bytes(report: Report) -> int:
    return len(report.values) + len(report.weights) + _REPORT_BYTES


def reduce_over_time(
    taken: list[Report],
    held: Held,
    tags_of: Callable[[int], tuple[str, ...]],
    over_time: Callable[[str], OverTime],
) -> Vector | None:
    """One source's vector for one iteration; updates ``held``. ``None``: nothing to say."""
    flows: dict[str, list[Part]] = {}
    fresh: set[str] = set()
    states = held.states
    for report in taken:
        tags = tags_of(report.key_set)
        totals: list[float] = unpack_values(report.values).tolist()
        weights: list[float] = unpack_values(report.weights).tolist()
        for tag, total, weight in zip(tags, totals, weights or [1.0] * len(tags), strict=True):
            if not tag:
                # A name that the run has no room for.
                continue
            how = over_time(tag)
            if how == "last":
                states[tag] = (total, weight)
            elif how in ("mean", "sum"):
                flows.setdefault(tag, []).append((total, weight))
            elif tag in fresh:
                states[tag] = _extreme(states[tag], (total, weight), largest=how == "max")
            else:
                fresh.add(tag)
                states[tag] = (total, weight)
    result = dict(states)
    for tag, parts in flows.items():
        total = sum(part[0] for part in parts)
        if over_time(tag) == "mean":
            # A source counts once over ranks, however often it reported.
            weight = sum(part[1] for part in parts)
            result[tag] = (total / len(parts), weight / len(parts))
        else:
            result[tag] = (total, 1.0)
    if not result:
        return None
    all_totals = np.array([part[0] for part in result.values()])
    all_weights = np.array([part[1] for part in result.values()])
    all_ones = bool((all_weights == 1.0).all())
    return Vector(tuple(result), all_totals, None if all_ones else all_weights)


def flowing_values(
    reports: list[Report],
    tags_of: Callable[[int], tuple[str, ...]],
    over_time: Callable[[str], OverTime],
) -> int:
    """How many values are of tags of which nothing holds until the next report."""
    return sum(
        over_time(tag) in ("mean", "sum")
        for report in reports
        for tag in tags_of(report.key_set)
        if tag
    )


def _extreme(a: Part, b: Part, *, largest: bool) -> Part:
    mean_a = a[0] / a[1] if a[1] else np.nan
    mean_b = b[0] / b[1] if b[1] else np.nan
    if np.isnan(mean_a) or np.isnan(mean_b):
        return a if np.isnan(mean_a) else b
    return a if (mean_a >= mean_b) == largest else b
