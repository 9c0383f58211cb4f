"""What was not logged, or found no room in the run, and whose it was. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from unilab_metrics.drop_words import counted_drops
from unilab_schema.control import SourceStatus
from unilab_sidecar.drawing.text import clean

MOST_NAMED = 8
BEGINS = "dropped: "


def dropped_text(sources: Iterable[SourceStatus]) -> str:
    """``dropped: 9 values that are no number (learner of rank 0)``; empty for nothing."""
    counts: dict[str, int] = {}
    places: dict[str, list[str]] = {}
    for source in sources:
        for reason, count in source.drops.items():
            if count:
                counts[reason] = counts.get(reason, 0) + count
                places.setdefault(reason, []).append(place(source))
    texts = (
        f"{clean(counted_drops(reason, n))} ({listed(places[reason])})"
        for reason, n in counts.items()
    )
    return f"{BEGINS}{listed(texts)}" if counts else ""


def place(source: SourceStatus) -> str:
    """Which process it is, for a terminal."""
    return clean(source.key.place)


def listed(names: Iterable[str]) -> str:
    """At most :data:`MOST_NAMED` of them, and how many more there are."""
    shown = list(names)
    more = len(shown) - MOST_NAMED
    return ", ".join(shown[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
