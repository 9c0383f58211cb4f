"""How fast a run is played again. Pure."""

from __future__ import annotations

from typing import NamedTuple

MIN_SPEED, MAX_SPEED = 0.01, 10_000.0


class Pace(NamedTuple):
    """``speed``: times as fast as it went; ``is_paused``: it stands still. ``last``: the run's last
    update sequence, 0 where that is not told."""

    speed: float
    is_paused: bool
    last: int = 0


def bounded(speed: float) -> float:
    """The nearest speed that there is."""
    return min(max(speed, MIN_SPEED), MAX_SPEED)
