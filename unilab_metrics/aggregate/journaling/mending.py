"""A history with a hole, made again: from the wal as far as that is exact, the rest from what of
the history can still be read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from unilab_metrics.aggregate.folding.absorbing import reduced_of
from unilab_metrics.aggregate.folding.packed import pack_values
from unilab_metrics.aggregate.folding.state import AggregatorState, Publication
from unilab_metrics.aggregate.journaling.history_end import HistoryEnd, HistoryItem, items_since
from unilab_metrics.wording import counted
from unilab_schema.updates import Supplement, Update


class Mended(NamedTuple):
    """``entries``: everything from the hole on that either half has, in order. ``gone``: update
    sequences that neither has. ``helps``: whether the history is better with them."""

    entries: list[Publication]
    gone: list[int]
    helps: bool


def mend(
    state: AggregatorState, end: HistoryEnd, hole: int, remade: Iterable[Publication]
) -> Mended:
    """``remade``: what the wal gives from ``hole`` on. ``state`` goes on behind it and gives
    layouts their numbers. Raises ``OSError``."""
    known = {publication.sequence: publication for publication in remade}
    has: set[int] = set()
    whole = dict(known)
    for item in items_since(end.segments, hole):
        if item.sequence <= end.last:
            has.add(item.sequence)
            if item.sequence not in known:
                whole[item.sequence] = _renumbered(state, item)
    gone = [sequence for sequence in range(hole, end.last + 1) if sequence not in whole]
    lacking = {sequence for sequence in known if sequence <= end.last} - has
    entries = [whole[sequence] for sequence in sorted(whole)]
    return Mended(entries, gone, bool(lacking) or not gone)


def gone_text(gone: Iterable[int]) -> str:
    """In words; empty if nothing is."""
    sequences = sorted(set(gone))
    if not sequences:
        return ""
    first, last = sequences[0], sequences[-1]
    if first == last:
        return f"update {first:,} is in neither half of the journal"
    if len(sequences) == last - first + 1:
        return f"updates {first:,} to {last:,} are in neither half of the journal"
    many = counted(len(sequences), "update")
    return f"{many} of {first:,} to {last:,} are in neither half of the journal"


def _renumbered(state: AggregatorState, item: HistoryItem) -> Publication:
    """The state may call by another number what a layout is called in the history."""
    entry = item.entry
    if not isinstance(entry, Update | Supplement):
        return Publication(item.sequence, entry, item.tags)
    reduced = reduced_of(state, entry.values, item.tags)
    layout, tags = state.layouts.number(reduced.columns)
    values = pack_values(reduced.values)
    again = msgspec.structs.replace(entry, layout=layout, values=values)
    return Publication(item.sequence, again, tags)
