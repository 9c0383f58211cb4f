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
_LONGEST_DELAY_S = 5.0
"""With the start of an interpreter well below the time that ``close()`` waits."""
_HEALTHY_AFTER_S = 10.0
_MOST_FAILURES = 100


@dataclass
class Backoff:
    """How long to wait before the next start. Pure; time comes from the caller.

    ``failures``: ends in a row of helpers that lived less than 10 s. Delays double from 1 s to
    5 s, or stay at 1 s in a ``hurry``; after 100 failures in a row (about 8 minutes) there is
    no next start.
    """

    failures: int = 0
    hurry: bool = False

    def after_end(self, lived_s: float) -> float | None:
        """Seconds until the next start, ``None`` to give up."""
        self.failures = 1 if lived_s >= _HEALTHY_AFTER_S else self.failures + 1
        if self.failures > _MOST_FAILURES:
            return None
        if self.hurry:
            return _FIRST_DELAY_S
        return min(_FIRST_DELAY_S * 2.0 ** (self.failures - 1), _LONGEST_DELAY_S)


class Supervisor:
    """Starts one helper and starts it again when it dies.

    Called at least once a second by one thread of the process that starts the helper; never
    blocks, never raises. One that was refused found another at work, and is only needed once
    ``is_taken`` is false. ``is_final``: whether an end with 0 is the helper's last word; if
    not, whoever calls is the one who knows when its work is done, and then stops calling.
    """

    def __init__(
        self,
        start: Callable[[], subprocess.Popen[bytes]],
        *,
        is_taken: Callable[[], bool],
        report: Callable[[str], None],
        last_words: Callable[[], str] = str,
        is_final: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``last_words``: what a helper that ended with an exit code has said about it."""
        self._start = start
        self._is_taken = is_taken
        self._report = report
        self._last_words = last_words
        self._is_final = is_final
        self._clock = clock
        self._backoff = Backoff()
        self._process: subprocess.Popen[bytes] | None = None
        self._started_s = 0.0
        self._next_start_s: float | None = clock()
        self._is_useless = False
        self._was_refused = False
        self._trouble = ""
        self.starts = 0

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        """Our child, ``None`` while there is none."""
        return self._process

    @property
    def is_finished(self) -> bool:
        """Whether no helper runs and none will be started."""
        return self._process is None and self._next_start_s is None

    def __call__(self, *, hurry: bool = False) -> str:
        """Look after the helper once; what was wrong with it lately, empty if all is well.

        ``hurry``, from some call on: the helper is needed to end now. One that waits for its
        next start, or was given up, is started at once, and again after 1 s.
        """
        now_s = self._clock()
        if hurry and not self._backoff.hurry:
            self._backoff = Backoff(hurry=True)
            if self._process is None and not self._is_useless:
                self._next_start_s = now_s
        if self._process is not None:
            status = self._process.poll()
            if status is None:
                if now_s - self._started_s >= _HEALTHY_AFTER_S:
                    self._trouble = ""
                return self._trouble
            self._process = None
            # Whatever fails below, it is looked after again.
            self._next_start_s = now_s + _FIRST_DELAY_S
            self._next_start_s = self._after_exit(status, now_s)
        if self._next_start_s is not None and now_s >= self._next_start_s:
            self._start_if_needed(now_s)
        return self._trouble

    def _start_if_needed(self, now_s: float) -> None:
        if self._is_taken():
            self._was_refused = False
            self._trouble = ""
            self._next_start_s = now_s + _FIRST_DELAY_S
        elif self._was_refused:
            # Nobody is at work, so it was refused for another reason.
            self._was_refused = False
            self._next_start_s = self._retry_time(now_s, self._ended_with(ExitCode.REFUSED))
        else:
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
        if status == ExitCode.OK and self._is_final:
            return None
        if status == ExitCode.OK and self._backoff.hurry:
            # It has said that the run is over, which is heard any moment now.
            return now_s + _FIRST_DELAY_S
        if status == ExitCode.REFUSED:
            self._was_refused = True
            return now_s
        if status == ExitCode.USAGE:
            self._is_useless = True
            self._tell(self._ended_with(status), "it is not started again")
            return None
        return self._retry_time(
            now_s, f"died of signal {-status}" if status < 0 else self._ended_with(status)
        )

    def _ended_with(self, status: int) -> str:
        if status == ExitCode.OK:
            return "ended while this process goes on"
        words = self._last_words()
        return f"ended with {int(status)}" + (f" ({words})" if words else "")

    def _retry_time(self, now_s: float, reason: str) -> float | None:
        delay_s = self._backoff.after_end(now_s - self._started_s)
        if delay_s is None:
            self._tell(reason, f"given up after {self._backoff.failures - 1} restarts")
            return None
        self._tell(reason, f"next start in {delay_s:.0f} s")
        return now_s + delay_s

    def _tell(self, reason: str, consequence: str) -> None:
        self._trouble = reason
        self._report(f"{reason}; {consequence}")
