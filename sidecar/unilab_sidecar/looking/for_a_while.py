"""What stays for a while only, or has to: a note, a question, and the last picture of a run that has
ended. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable

LINGER_S = 5.0
"""How long the last picture stays when the view closes with the run."""
READ_S = 0.5
"""In less nobody reads a question; keys that come at once are pasted, or were meant for another."""


class PassingNote:
    """What has just been done, in words. Times are the caller's, of one monotonic clock."""

    def __init__(self) -> None:
        self._words = ""
        self._until_s = 0.0

    @property
    def is_shown(self) -> bool:
        """Whether the newest picture may hold it."""
        return bool(self._words)

    def say(self, words: str, until_s: float) -> None:
        """In place of the one before; none if there are no words."""
        self._words, self._until_s = words, until_s

    def words(self, now_s: float) -> str:
        """For the next picture."""
        if now_s >= self._until_s:
            self._words = ""
        return self._words


class ShownQuestion:
    """Whether somebody can have read what is asked. Times are of one monotonic clock."""

    def __init__(self) -> None:
        self._since_s: float | None = None

    def show(self, now_s: float, *, is_asked: bool) -> None:
        """To be told with every picture."""
        if not is_asked:
            self._since_s = None
        elif self._since_s is None:
            self._since_s = now_s

    def is_read(self, typed_s: float) -> bool:
        """Whether a key that was typed at this time may answer it."""
        return self._since_s is not None and typed_s - self._since_s >= READ_S


class LastPicture:
    """Whether it has been seen for long enough, unless somebody keeps it. A run that goes on after
    its end has none. Times are of one monotonic clock."""

    def __init__(self, *, closes: bool = True, keep: Callable[[], object] | None = None) -> None:
        """``closes``: the view, once it has been seen. ``keep``: to be called when somebody wants
        it to stay; without it nobody can."""
        self._closes = closes
        self._keep = keep
        self._since_s: float | None = None
        self._is_kept = False

    @property
    def is_closing(self) -> bool:
        """Whether the view closes soon."""
        return self._closes and self._since_s is not None and not self._is_kept

    def is_seen(self, now_s: float, *, has_ended: bool) -> bool:
        """To be asked with every picture: whether the view closes now."""
        if not has_ended:
            self._since_s = None
        elif self._since_s is None:
            self._since_s = now_s
        since_s = self._since_s
        return self.is_closing and since_s is not None and now_s - since_s >= LINGER_S

    def words(self, now_s: float) -> str:
        """What is to be said of it; empty if it stays."""
        if not self.is_closing or self._since_s is None:
            return ""
        if self._keep is None:
            return "closes with the training"
        left_s = max(math.ceil(self._since_s + LINGER_S - now_s), 1)
        return f"closes in {left_s} s · any key stays"

    def heed_key(self) -> bool:
        """Somebody has pressed one that does not close the view: whether it stays by that."""
        if self._keep is None or not self.is_closing:
            return False
        self._is_kept = True
        self._keep()
        return True
