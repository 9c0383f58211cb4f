"""How a source stands, in one word: as the aggregator says it, and how it ended if it has. Pure.

The protocol's ``finished`` is whoever said goodbye, also after an exception.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from unilab_metrics.outcome import FAILED, FAILURES, STOPPED
from unilab_schema.control import SourceStatus
from unilab_sidecar.drawing.text import Style

ENDED = frozenset({"finished", FAILED, STOPPED})
"""Of a process that has said its last word."""
MARKS: Mapping[str, tuple[str, Style]] = {
    "live": ("●", "good"),
    "awaited": ("◌", "accent"),
    "silent": ("○", "warn"),
    "lost": ("✗", "bad"),
    "gone": ("✗", "bad"),
    FAILED: ("✗", "bad"),
    STOPPED: ("■", "warn"),
    "finished": ("✓", "dim"),
}
"""In the order in which they are counted on the screen."""


def shown_state(state: str, ended: str) -> str:
    """``ended``: the status that the source closed with."""
    if state != "finished":
        return state
    if ended in FAILURES:
        return FAILED
    return STOPPED if ended == STOPPED else state


def unsaid_failures(sources: Iterable[SourceStatus], said: Collection[str]) -> list[str]:
    """``learner of rank 1 failed`` for each that is shown as failed and of which no text that is
    ``said`` says so."""
    texts = [f"{one.key.place} failed" for one in sources if one.state == FAILED]
    return [text for text in texts if not any(it.startswith(text) for it in said)]


def as_shown(status: SourceStatus) -> SourceStatus:
    """With the state that is shown."""
    shown = shown_state(status.state, status.ended)
    return status if shown == status.state else msgspec.structs.replace(status, state=shown)
