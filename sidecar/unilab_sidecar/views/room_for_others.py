"""How many metrics outside the table are listed where a screen has rows to spare. Pure."""

from __future__ import annotations

from unilab_sidecar.panels import bus, metrics
from unilab_sidecar.picture import Picture

_TRIES = 3


def spare_rows(picture: Picture, width: int, room: int, needed: int) -> int:
    """Rows for more of them, of ``room`` of which the rest needs ``needed`` with its usual events.
    The reward's chart has as many as they; an event more makes it no other screen."""
    events_to_come = max(bus.USUAL_EVENTS + 1 - len(bus.events(picture, width)), 0)
    spare = max(room - needed - events_to_come, 0)
    return spare // 2 if picture.rewards.tag else spare


def as_many_as_fit(picture: Picture, width: int, spare: int, usual: int) -> int:
    """How many fill ``spare`` more rows than the ``usual`` ones take; these at least."""
    every = len(picture.others)
    taken = len(metrics.others(picture, width, usual))
    rows = taken - _FRAME
    if spare < 1 or every <= usual or rows < 1:
        return usual
    most, each = usual, max(usual // rows, 1)
    for _ in range(_TRIES):
        most = min(every, (rows + spare) * each)
        more = len(metrics.others(picture, width, most)) - _FRAME
        if more <= rows + spare:
            return max(most, usual)
        # Longer names among them leave fewer columns.
        each = max(most // more, 1)
    return usual


_FRAME = 2
"""The heading, and the row that counts the others."""
