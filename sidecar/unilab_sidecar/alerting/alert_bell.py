"""When an alert that opens rings the terminal's bell. Pure."""

from __future__ import annotations

from unilab_sidecar.picture import Picture

LEAST_S = 1.0
"""Between two rings."""


class AlertBell:
    """Of one viewer, which is never rung for what had opened before it looked."""

    def __init__(self) -> None:
        self._newest: int | None = None
        self._rung_s = -LEAST_S

    def heed(self, picture: Picture, now_s: float) -> bool:
        """Whether to ring now, at this monotonic time."""
        if picture.stage in ("connecting", "loading"):
            return False
        newest = max((one.alert for one in picture.own_alerts[0]), default=0)
        if self._newest is None:
            self._newest = newest
        if newest <= self._newest:
            return False
        self._newest = newest
        if now_s - self._rung_s < LEAST_S:
            return False
        self._rung_s = now_s
        return True
