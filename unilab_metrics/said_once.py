"""Saying what fails for long: once for each cause, and again only after it was good. Pure."""

from __future__ import annotations

import errno
import re

from unilab_metrics.errors import StorageFullError

MOST_TIMES = 8
"""A disk that fills and empties without end must not fill a log, or the run's summary, too."""
_MOST_CAUSES = 32
_LAST = "; it has come and gone so often that it is not said again"
_FULL = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT})
_NUMBER = re.compile(r"\d+")


def cause_of(error: BaseException) -> str:
    """The same for what fails in the same way, whatever path and bytes its text names this time:
    a retry writes another number of bytes, or into a file with a new name."""
    number = None
    link: BaseException | None = error
    while link is not None:
        of_link = getattr(link, "errno", None) or getattr(link, "error_number", None)
        if isinstance(link, StorageFullError) or of_link in _FULL:
            return "full"
        number = number or of_link
        link = link.__cause__
    return errno.errorcode.get(number or 0, _NUMBER.sub("0", str(error)))


class SaidOnce:
    """Of one thing that may fail: what to say of each failure, and when it works again."""

    def __init__(self) -> None:
        self._failing: set[str] = set()
        self._times: dict[str, int] = {}
        self._is_owed = False

    @property
    def is_failing(self) -> bool:
        """Whether it has failed and not worked since."""
        return bool(self._failing)

    def fails(self, cause: str, text: str) -> str:
        """``text`` if it is to be said, else empty: at the first failure of this ``cause`` since
        it last worked, :data:`MOST_TIMES` times at most."""
        if cause in self._failing:
            return ""
        self._failing.add(cause)
        if cause not in self._times and len(self._times) >= _MOST_CAUSES:
            return ""
        times = self._times[cause] = self._times.get(cause, 0) + 1
        if times > MOST_TIMES:
            return ""
        self._is_owed = True
        return f"{text}{_LAST}" if times == MOST_TIMES else text

    def works(self, text: str) -> str:
        """``text`` if it is to be said: where a failure was."""
        is_owed, self._is_owed = self._is_owed, False
        self._failing.clear()
        return text if is_owed else ""
