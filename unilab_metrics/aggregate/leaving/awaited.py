"""What the end of a run waits for, in words for who closes and waits for it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from unilab_metrics.aggregate.folding.run_data import RunData

_MOST_NAMED = 3


def awaited(data: RunData, behind: Sequence[str]) -> str:
    """``behind``: the backends that lack updates, and what they have. Empty for nothing."""
    live = [source.identity.key.place for source in data.sources if source.status == "live"]
    if live:
        return f"{_named(live)} {'has' if len(live) == 1 else 'have'} not ended"
    return _named(list(behind))


def _named(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
