"""The bus's own figures as tags of an update. Pure.

The shell tells the news with a ``Seal`` a few times a second, so that a refold needs no clock.
What the sources of a rank say is first one value per rank, and then reduced over ranks like
any other tag.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from unilab_metrics.aggregate.folding.reduction import Supplier, reduce_over_ranks
from unilab_schema.canonical.bus import DROPPED_PREFIX, TROUBLE_PREFIX

if TYPE_CHECKING:
    from unilab_metrics.aggregate.folding.entries import BusNews
    from unilab_metrics.aggregate.folding.sources import SourceState
    from unilab_metrics.aggregate.folding.state import AggregatorState

MAX_REASONS = 64
"""Reasons of drops, and names of troubles, that get a tag; the rest is one more, ``other``."""
OTHER = "other"

_Part = tuple[float, float]
"""A total and its weight."""


def take_news(state: AggregatorState, news: BusNews) -> None:
    """What the aggregator's process has counted since the last news."""
    data = state.data
    data.bad_messages += news.bad_messages
    if news.commit_ms is not None:
        data.commit_ms = news.commit_ms
    for told in news.sources:
        source = data.sources[told.source]
        source.duplicates += told.duplicates
        source.bad_messages += told.bad_messages
        if told.drops is not None:
            source.drops = dict(told.drops)
        if told.troubles is not None:
            source.troubles = dict(told.troubles)
        if told.figures is not None:
            before = source.figures
            source.log_cost = (
                told.figures.log_calls - (before.log_calls if before else 0),
                told.figures.log_ns - (before.log_ns if before else 0),
            )
            source.figures = told.figures


def bus_supplier(state: AggregatorState, node: Mapping[str, float]) -> Supplier:
    """All ``Bus/…`` tags, reduced, and those of ``node``. It takes the place of whatever else has
    these names."""
    data = state.data
    by_rank: dict[int, list[SourceState]] = {}
    for source in data.sources:
        if source.attempt == data.attempt:
            by_rank.setdefault(source.rank, []).append(source)
    everyone = [source for sources in by_rank.values() for source in sources]
    reasons = _first(source.dropped() for source in everyone)
    troubles = _first(source.troubles for source in everyone)
    suppliers = [
        _own(state, node),
        *(_supplier(state, r, _of_rank(by_rank[r], reasons, troubles)) for r in sorted(by_rank)),
    ]
    reduced = reduce_over_ranks(suppliers, state.columns)
    return Supplier(0, reduced.columns, reduced.values, None, already_reduced=True)


def _own(state: AggregatorState, node: Mapping[str, float]) -> Supplier:
    data = state.data
    parts: dict[str, _Part] = {
        "Bus/late_values": (data.late_values, 1.0),
        "Bus/refused_frames": (data.quarantined, 1.0),
        "Bus/bad_messages": (data.bad_messages, 1.0),
    }
    if data.commit_ms is not None:
        parts["Bus/commit_ms"] = (data.commit_ms, 1.0)
    parts |= {tag: (value, 1.0) for tag, value in node.items()}
    return _supplier(state, 0, parts)


def _of_rank(
    sources: list[SourceState], reasons: frozenset[str], troubles: frozenset[str]
) -> dict[str, _Part]:
    """Counters count every source of the attempt, gauges those that live."""
    parts: dict[str, _Part] = {
        "Bus/duplicate_frames": (sum(s.duplicates for s in sources), 1.0),
        "Bus/lost_frames": (sum(s.lost_frames for s in sources), 1.0),
    }
    live = [s for s in sources if s.status == "live" and s.ended is None and s.figures is not None]
    figures = [s.figures for s in live if s.figures is not None]
    if figures:
        parts["Bus/backlog_frames"] = (sum(f.backlog for f in figures), 1.0)
    latencies = [f.ack_latency_ms for f in figures if f.ack_latency_ms is not None]
    if latencies:
        parts["Bus/ack_latency_ms"] = (max(latencies), 1.0)
    calls = sum(s.log_cost[0] for s in live)
    if calls > 0:
        parts["Bus/publish_us"] = (sum(s.log_cost[1] for s in live) / 1e3, float(calls))
    parts |= _by_name(DROPPED_PREFIX, (source.dropped() for source in sources), reasons)
    parts |= _by_name(TROUBLE_PREFIX, (source.troubles for source in sources), troubles)
    return parts


def _by_name(
    prefix: str, counts: Iterable[Mapping[str, int]], named: frozenset[str]
) -> dict[str, _Part]:
    totals: dict[str, int] = {}
    for of_source in counts:
        for name, count in of_source.items():
            tag = f"{prefix}{name if name in named else OTHER}"
            totals[tag] = totals.get(tag, 0) + count
    return {tag: (float(count), 1.0) for tag, count in totals.items()}


def _first(counts: Iterable[Mapping[str, int]]) -> frozenset[str]:
    found = {name for of_source in counts for name in of_source}
    return frozenset(sorted(found)[:MAX_REASONS])


def _supplier(state: AggregatorState, rank: int, parts: dict[str, _Part]) -> Supplier:
    totals = np.array([float(part[0]) for part in parts.values()])
    weights = np.array([part[1] for part in parts.values()])
    return Supplier(rank, state.columns.columns(tuple(parts)), totals, weights)
