"""The end of a run as lines tell it: when all of it is there, and no end twice. Pure: times are handed
in.

The announcement of an end may come before the entries that it counts, also from an aggregator that is
gone a moment later: then its files have them.
"""

from __future__ import annotations

from unilab_sidecar.picture import Picture

REST_WITHIN_S = 5.0
"""What has not come by then nobody can read."""


class ToldEnd:
    """One owner, no locks."""

    def __init__(self) -> None:
        self._attempt: int | None = None
        self._unread, self._since_s = 0, 0.0

    def is_whole(self, picture: Picture, now_s: float) -> bool:
        """Whether no more entries are to be expected of a run that has ended. ``now_s``: on any clock
        that only rises."""
        if picture.unread != self._unread:
            self._unread, self._since_s = picture.unread, now_s
        return not picture.unread or now_s - self._since_s >= REST_WITHIN_S

    def was_told(self, picture: Picture) -> bool:
        """Whether the picture shows an end that :meth:`told` has heard of, and no training since:
        what is said meanwhile of an attempt that is on its way does not count."""
        if picture.ended is None:
            if picture.iteration is not None:
                self._attempt = None
            return False
        return picture.attempt == self._attempt

    def told(self, picture: Picture) -> None:
        """Somebody was told of it."""
        self._attempt = picture.attempt
