"""Keeping a helper process alive without ever having two of it.

A helper is started again only after ``waitpid`` has said that our own child is gone: a
process that is merely silent may still hold the lease and write. One that has been silent for
too long is killed first, if it is our own child.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

from unilab_metrics.errors import ExitCode
from unilab_metrics.helper_life import Heard, Silence, Trouble
from unilab_metrics.wording import counted

_FIRST_DELAY_S = 1.0
_LONGEST_DELAY_S = 30.0
"""Longer than ``close()`` waits, which is why that is in a hurry."""
_HEALTHY_AFTER_S = 10.0
_MOST_FAILURES = 30
AGGREGATOR_HUNG_AFTER_S = 15
"""A source's pings are answered several times a second."""
WRITER_HUNG_AFTER_S = 60
"""A writer says where it is each second; its backend may keep it for a while."""


@dataclass
class Backoff:
    """How long to wait before the next start. Pure; time comes from the caller.

    ``failures``: ends in a row of helpers that were well for less than 10 s. Delays double from
    1 s to 30 s, and after 30 failures in a row (about 13 minutes) there is no next start. In a
    ``hurry`` they stay at 1 s, for as long as somebody asks.
    """

    failures: int = 0
    hurry: bool = False

    def after_end(self, lived_s: float) -> float | None:
        """Seconds until the next start, ``None`` to give up."""
        self.failures = 1 if lived_s >= _HEALTHY_AFTER_S else self.failures + 1
        if self.hurry:
            return _FIRST_DELAY_S
        if self.failures > _MOST_FAILURES:
            return None
        return min(_FIRST_DELAY_S * 2.0 ** (self.failures - 1), _LONGEST_DELAY_S)


class Supervisor:
    """Starts one helper and starts it again when it dies.

    Called at least once a second by one thread of the process that starts the helper; never
    blocks, never raises. One that was refused found another at work, and is only needed once
    ``is_taken`` is false. ``is_final``: whether an end with 0 is the helper's last word; if
    not, whoever calls is the one who knows when its work is done, and then stops calling.

    ``hung_after_s``: seconds without a sign of life after which our child is killed, 0 for
    never. They are counted by the calls, one a second at most: while the caller itself is
    suspended nothing is counted.
    """

    def __init__(
        self,
        start: Callable[[], subprocess.Popen[bytes]],
        *,
        is_taken: Callable[[], bool],
        report: Callable[[Trouble], None] | None = None,
        last_words: Callable[[], str] = str,
        holder: Callable[[], int | None] | None = None,
        is_final: bool = True,
        hung_after_s: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``report``: told of each trouble; without it they wait for :meth:`take_troubles`.
        ``last_words``: what a helper that ended with an exit code has said about it.
        ``holder``: who holds the helper's lease; one that holds it and has never been heard
        counts as silent.
        """
        self._start = start
        self._is_taken = is_taken
        self._troubles: list[Trouble] = []
        self._report = report or self._troubles.append
        self._holder = holder
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
        self._silence = Silence(hung_after_s, clock())
        self._killed_after_s = 0
        self.starts = 0

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        """Our child, ``None`` while there is none."""
        return self._process

    @property
    def is_finished(self) -> bool:
        """Whether no helper runs and none will be started."""
        return self._process is None and self._next_start_s is None

    def take_troubles(self) -> list[Trouble]:
        """What nobody was told yet, oldest first."""
        troubles = self._troubles.copy()
        self._troubles.clear()
        return troubles

    def __call__(self, *, hurry: bool = False, heard: Heard | None = None) -> str:
        """Look after the helper once; what was wrong with it lately, empty if all is well.

        ``hurry``, from some call on: the helper is needed to end now. One that waits for its
        next start, or was given up, is started at once, and again after 1 s. ``heard``: the
        process from which a sign of life is due each second, and its last one.
        """
        now_s = self._clock()
        if hurry and not self._backoff.hurry:
            self._backoff = Backoff(hurry=True)
            if self._process is None and not self._is_useless:
                self._next_start_s = now_s
        if self._process is not None:
            status = self._process.poll()
            if status is None:
                self._look_at(self._process, heard, now_s)
                return self._trouble
            self._process = None
            # Whatever fails below, it is looked after again.
            self._next_start_s = now_s + _FIRST_DELAY_S
            self._next_start_s = self._after_exit(status, now_s)
        if self._next_start_s is not None and now_s >= self._next_start_s:
            self._start_if_needed(now_s)
        return self._trouble

    def _look_at(self, process: subprocess.Popen[bytes], heard: Heard | None, now_s: float) -> None:
        if now_s - self._started_s - self._silence.seconds >= _HEALTHY_AFTER_S:
            self._trouble = ""
        if heard is None and self._holder is not None:
            heard = Heard(self._holder() or 0, 0.0)
        asked = heard if heard is not None and heard.pid == process.pid else None
        if self._silence.is_too_long(asked, now_s) and not self._killed_after_s:
            # Popen looks once more whether it is still our child.
            process.kill()
            self._killed_after_s = self._silence.seconds

    def _start_if_needed(self, now_s: float) -> None:
        try:
            is_taken = self._is_taken()
        except OSError as error:
            # Whether somebody is at work cannot be seen, so nobody is started beside them.
            self._trouble = f"cannot be looked for: {error}"
            self._next_start_s = now_s + _FIRST_DELAY_S
            return
        if is_taken:
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
        self._silence.forget()
        self._killed_after_s = 0
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
        return self._retry_time(now_s, self._how_it_ended(status))

    def _how_it_ended(self, status: int) -> str:
        if self._killed_after_s:
            return f"did not answer for {self._killed_after_s} s and was killed"
        return f"died of signal {-status}" if status < 0 else self._ended_with(status)

    def _ended_with(self, status: int) -> str:
        if status == ExitCode.OK:
            return "ended while this process goes on"
        words = self._last_words()
        return f"ended with {int(status)}" + (f" ({words})" if words else "")

    def _retry_time(self, now_s: float, reason: str) -> float | None:
        # A hung one was well for a shorter time than it lived.
        well_s = now_s - self._started_s - self._killed_after_s
        delay_s = self._backoff.after_end(well_s)
        if delay_s is None:
            self._tell(reason, f"given up after {counted(self._backoff.failures - 1, 'restart')}")
            return None
        self._tell(reason, f"next start in {delay_s:.0f} s")
        return now_s + delay_s

    def _tell(self, reason: str, consequence: str) -> None:
        self._trouble = reason
        self._report(Trouble(reason, consequence))
