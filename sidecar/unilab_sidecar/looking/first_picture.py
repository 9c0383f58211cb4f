"""When a picture does not wait for the clock: the first one of a run, and of another place of it. Pure.

Between two beats of the clock lies half a second. Who opens a run, or goes to another moment of it,
waits for nothing else as soon as the data is there; after that the beat is enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unilab_sidecar.picture import Stage

LOOK_S = 0.02
"""Between two looks for data that has to come soon."""
SELDOM_S = 0.1
"""The same of a run that has not begun after :data:`JOIN_S`."""
JOIN_S = 5.0
_EMPTY: frozenset[Stage] = frozenset({"connecting", "loading"})
_WHOLE: frozenset[Stage] = frozenset({"training", "ended"})


class FirstPicture:
    """Awaited from the beginning. Times are the caller's, of one monotonic clock. One owner, no
    locks."""

    def __init__(self) -> None:
        self.is_awaited = True
        """Until then nothing is drawn between two beats that is not it."""
        self._is_elsewhere = False
        self._seen: Stage = "connecting"
        self._since_s: float | None = None

    def goes_to(self, place: int | None) -> float | None:
        """The run is to go on from another place; ``None`` for none. How soon to look for it."""
        if place is None:
            return None
        self.begins_anew()
        self._is_elsewhere = True
        return LOOK_S

    def begins_anew(self) -> None:
        """What comes from now on is of another place of the run."""
        self.is_awaited, self._is_elsewhere = True, False
        self._seen, self._since_s = "connecting", None

    def is_there(self, stage: Stage) -> bool:
        """To be told of each picture that could be drawn: whether it is drawn at once. A run that
        waits for its training is one, and then once more its first data."""
        if not self.is_awaited or self._is_elsewhere:
            return False
        is_new = stage not in _EMPTY and stage != self._seen
        self._seen = stage
        self.is_awaited = stage not in _WHOLE
        return is_new

    def look_in_s(self, now_s: float) -> float | None:
        """How soon to look for it; ``None`` if it is not awaited."""
        if not self.is_awaited:
            return None
        if self._since_s is None:
            self._since_s = now_s
        if now_s - self._since_s < JOIN_S:
            return LOOK_S
        # Who was to go elsewhere is there already.
        self.is_awaited = not self._is_elsewhere
        return SELDOM_S if self.is_awaited else None
