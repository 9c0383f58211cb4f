"""Counting what could not be logged, by reason, and what cost nothing, by name: from any thread
and from signal handlers."""

from __future__ import annotations

import errno
import threading
from collections import deque

FORKED = "forked"
"""Calls in a child that inherited a publisher and did not connect()."""
CLOSED = "closed"
"""Calls after close()."""
UNAVAILABLE = "spool_unavailable"
"""Calls of a publisher whose spool could not be made."""
NO_RUN = "no_run"
"""Records of a process that belongs to no run."""
SPOOL_FULL = "spool_full"
"""Records that the file system had no room for."""
SPOOL_QUOTA = "spool_quota"
"""Records beyond the quota of the spool: nobody has collected it for long."""
SPOOL_ERROR = "spool_error"
"""Records that the file system refused for another reason."""
OVERSIZE = "oversize"
"""Records beyond 256 KiB."""
BAD_VALUE = "bad_value"
"""Values that are no number."""
BAD_TAG = "bad_tag"
"""Tags that are no usable name."""
BAD_STEP = "bad_step"
"""Calls, or counters of environment steps, whose step is no integral number."""
BAD_CALL = "bad_call"
"""Calls with arguments that make no sense."""
TOO_MANY_TAGS = "too_many_tags"
"""Tags beyond the number of names that one source may announce."""
KEY_REFUSED = "key_refused"
"""Times that the aggregator began to refuse our key. The frames wait; none is lost by it."""
KEY_UNUSABLE = "key_unusable"
"""Times that the run's key for publishing could not be read. The frames wait."""
STORE_UNUSABLE = "store_unusable"
"""Times that torch.distributed's store did not help to find the run. The frames wait."""
INTERRUPTED = "interrupted"
"""Calls of a signal handler with new tags, which came while other ones were being announced."""
INTERNAL_ERROR = "internal_error"
"""Calls during which our own code raised; see ``Publisher.errors``."""

TROUBLES = frozenset({KEY_REFUSED, KEY_UNUSABLE, STORE_UNUSABLE})
"""What is no loss: frames wait until it is over."""

_MAX_ERRORS = 16
_FULL = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT})


def reason_of(error: OSError) -> str:
    """Under which reason a record counts that a file system did not take."""
    return SPOOL_FULL if error.errno in _FULL else SPOOL_ERROR


class Losses:
    """Counts by reason since the process started, and the newest texts of errors.

    No call waits: a thread that finds the counters busy leaves its count in a queue, which
    whoever comes next folds in. That also makes it safe inside a signal handler.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._waiting: deque[tuple[str, int]] = deque()
        self._lock = threading.Lock()
        self.refused_by_run: dict[str, int] = {}
        """What the aggregator says that it could not take of what was sent."""
        self.errors: deque[str] = deque(maxlen=_MAX_ERRORS)

    def count(self, reason: str, times: int = 1) -> None:
        """Something was lost for ``reason``, or one of :data:`TROUBLES` began, ``times`` times."""
        self._waiting.append((reason, times))
        self._fold()

    def internal_error(self, error: BaseException) -> None:
        """Our own code raised: count it and keep its text."""
        self.note(error)
        self.count(INTERNAL_ERROR)

    def note(self, error: BaseException) -> None:
        """Keep the text of an error that cost no frame; a repeated one is kept once."""
        self.keep(f"{type(error).__name__}: {error}")

    def keep(self, text: str) -> None:
        """Keep what there is to say, if anything; a repeated text is kept once."""
        if text and text not in self.errors:
            self.errors.append(text)

    @property
    def counts(self) -> dict[str, int]:
        """A copy; empty while nothing was lost."""
        self._fold()
        return {name: times for name, times in self._counts.items() if name not in TROUBLES}

    @property
    def both(self) -> tuple[dict[str, int], dict[str, int]]:
        """:attr:`counts` and :attr:`troubles`."""
        return self.counts, self.troubles

    @property
    def troubles(self) -> dict[str, int]:
        """A copy: what was met and cost no frame."""
        self._fold()
        return {name: times for name, times in self._counts.items() if name in TROUBLES}

    @property
    def all_counts(self) -> dict[str, int]:
        """As :attr:`counts`, with what the run has refused, which it counts itself."""
        counts = self.counts
        for reason, times in self.refused_by_run.items():
            counts[reason] = counts.get(reason, 0) + times
        return counts

    def after_fork_in_child(self) -> None:
        """Another thread of the parent may have held the lock."""
        self._lock = threading.Lock()

    def _fold(self) -> None:
        while self._waiting and self._lock.acquire(blocking=False):
            try:
                while self._waiting:
                    reason, times = self._waiting.popleft()
                    self._counts[reason] = self._counts.get(reason, 0) + times
            finally:
                self._lock.release()
