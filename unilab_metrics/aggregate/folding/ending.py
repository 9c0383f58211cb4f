"""An attempt's end, and its withdrawal when more of the attempt comes after it. Pure.

What a process left behind may be found after the run's end: its node was cut off, or its
spool lay where no aggregator looked. As long as no later attempt has begun, the numbers still
belong to this one; so the end is taken back, what came is folded as ever, and the run ends
again. An attempt that a later one has replaced stays as it is: its iterations are counted
again, and what still comes of them is late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unilab_metrics.aggregate.folding.entries import (
    AcceptedBatch,
    EndWithdrawn,
    Entry,
    GapFound,
    RunEnd,
    SourceJoined,
    SourceReturned,
)
from unilab_schema.updates import RunEnded

if TYPE_CHECKING:
    from unilab_metrics.aggregate.folding.run_data import RunData
    from unilab_metrics.aggregate.folding.state import AggregatorState, Publication


def end_run(state: AggregatorState, entry: RunEnd) -> list[Publication]:
    """Every source is gone."""
    data = state.data
    data.ended = entry.status
    data.ended_text = entry.text
    data.ended_unix_ns = entry.unix_ns
    ended = RunEnded(data.attempt, entry.status, entry.unix_ns, entry.text)
    return [*state.ensure_opened(entry.unix_ns), state.publication(ended)]


def withdraw_end(state: AggregatorState, entry: EndWithdrawn) -> list[Publication]:
    """The attempt goes on where it was; the history says why."""
    data = state.data
    data.ended = None
    data.ended_text = ""
    data.ended_unix_ns = 0
    return [state.own_event("reopened", entry.text, entry.mono_ns, entry.unix_ns)]


def withdrawal(data: RunData, entry: Entry, unix_ns: int, mono_ns: int) -> EndWithdrawn | None:
    """What must be folded before ``entry`` if that is more of an attempt that has ended."""
    if data.ended is None:
        return None
    match entry:
        case AcceptedBatch() | GapFound() | SourceReturned():
            source = data.sources[entry.source]
            if source.attempt != data.attempt:
                return None
            name = source.name
        case SourceJoined(is_late=False):
            identity = entry.identity
            name = f"{identity.key.place} (pid {identity.pid} on {identity.host})"
        case _:
            return None
    text = f"the run's end is taken back: {name} has said more than was known by then"
    return EndWithdrawn(unix_ns, mono_ns, text)
