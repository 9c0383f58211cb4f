"""What is known of one moment of a run's past. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unilab_schema.updates import BinBlock, Update
from unilab_sidecar.values.window import WINDOW_NS

if TYPE_CHECKING:
    from unilab_metrics.subscribe.history import HistoryRecord

ENOUGH_NS = 2 * WINDOW_NS + 100_000_000
"""Of entries before a moment: its window, and the one before it."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What is known of the moment when the run had come to update sequence ``at``.

    ``records``: the entries up to it, the last few seconds at least where there are so many;
    ``blocks``: of one stretch of the history before them, empty without any. ``newest``: the run's
    newest update sequence when this was asked.
    """

    at: int
    records: tuple[HistoryRecord, ...]
    blocks: tuple[BinBlock, ...] = ()
    newest: int = 0


def is_enough(records: tuple[HistoryRecord, ...]) -> bool:
    """Whether the last update's window, and the one before it, lie in these entries."""
    sealed = [(r.entry.attempt, r.entry.sealed_mono_ns) for r in records if isinstance(r.entry, Update)]  # fmt: skip
    if not sealed:
        return False
    attempt, newest_ns = sealed[-1]
    # Another attempt's values are in no window of this one, nor are those of another clock.
    return any(a != attempt or not newest_ns - ENOUGH_NS < ns <= newest_ns for a, ns in sealed)
