"""Keeping a helper process alive without ever having two of it.

A helper is started again only after ``waitpid`` has said that our own child is gone: a
process that is merely silent may still hold the lease and write.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

from unilab_metrics.errors import ExitCode

_FIRST_DELAY_S = 1.0
_LONGEST_DELAY_S = 30.0
_HEALTHY_AFTER_S = 60.0
_MOST_FAILURES = 20


@dataclass
class Backoff:
    """How long to wait before the next start. Pure; time comes from the caller.

    ``failures``: ends in a row of helpers that lived less than a minute. Delays double from
    1 s to 30 s; after 20 failures in a row (about 8 minutes) there is no next start.
    """

    failures: int = 0

    def after_end(self, lived_s: float) -> float | None:
        """Seconds until the next start, ``None`` to give up."""
        self.failures = 1 if lived_s >= _HEALTHY_AFTER_S else self.failures + 1
        if self.failures > _MOST_FAILURES:
            return None
        return min(_FIRST_DELAY_S * 2.0 ** (self.failures - 1), _LONGEST_DELAY_S)


class Supervisor:
    """Starts one helper and starts it again when it dies.

    Called about once a second by the shipper thread of the process that starts the helper;
    never blocks, never raises. A helper that ended by itself with 0 has finished its work; one
    that was refused found another at work, and is only needed once ``is_taken`` is false.
    """

    def __init__(
        self,
        start: Callable[[], subprocess.Popen[bytes]],
        *,
        is_taken: Callable[[], bool],
        report: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._start = start
        self._is_taken = is_taken
        self._report = report
        self._clock = clock
        self._backoff = Backoff()
        self._process: subprocess.Popen[bytes] | None = None
        self._started_s = 0.0
        self._next_start_s: float | None = clock()
        self.starts = 0

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        """Our child, ``None`` while there is none."""
        return self._process

    @property
    def is_finished(self) -> bool:
        """Whether no helper runs and none will be started."""
        return self._process is None and self._next_start_s is None

    def __call__(self) -> None:
        """Look after the helper once."""
        now_s = self._clock()
        if self._process is not None:
            status = self._process.poll()
            if status is None:
                return
            self._process = None
            self._next_start_s = self._after_exit(status, now_s)
        if self._next_start_s is None or now_s < self._next_start_s:
            return
        if self._is_taken():
            self._next_start_s = now_s + _FIRST_DELAY_S
            return
        self._start_once(now_s)

    def _start_once(self, now_s: float) -> None:
        self._started_s = now_s
        try:
            self._process = self._start()
        except Exception as error:  # noqa: BLE001 (whatever it is, training goes on)
            self._next_start_s = self._retry_time(now_s, f"could not be started: {error}")
        else:
            self.starts += 1
            self._next_start_s = None

    def _after_exit(self, status: int, now_s: float) -> float | None:
        if status == ExitCode.OK:
            return None
        if status == ExitCode.REFUSED:
            return now_s + _FIRST_DELAY_S
        if status == ExitCode.USAGE:
            self._report("ended with a usage error and is not started again")
            return None
        reason = f"died of signal {-status}" if status < 0 else f"ended with {status}"
        return self._retry_time(now_s, reason)

    def _retry_time(self, now_s: float, reason: str) -> float | None:
        delay_s = self._backoff.after_end(now_s - self._started_s)
        if delay_s is None:
            self._report(f"{reason}; given up after {self._backoff.failures - 1} restarts")
            return None
        self._report(f"{reason}; next start in {delay_s:.0f} s")
        return now_s + delay_s
