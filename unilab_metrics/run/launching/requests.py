"""What a launcher is asked by signals: to stop, to pass one on, to pause."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Generator, Sequence
from types import FrameType

SAME_S = 0.05
"""The same signal again so soon is the same request: `timeout` and others send one to the process and
to its group, and nobody presses a key twice in that time."""
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Requests:
    """Filled by signal handlers, looked at by the main thread, which owns it."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        """Signals that nobody has dealt with yet, oldest first."""
        self.is_to_pause = False
        self._heard_s: dict[int, float] = {}

    @contextlib.contextmanager
    def taken(self, *others: signal.Signals) -> Generator[None]:
        """Meanwhile the signals that ask to stop, Ctrl+Z and ``others`` come here. Those that are
        ignored stay so: ``nohup``, or a shell's background job."""

        def remember(number: int, _frame: FrameType | None) -> None:
            if number == signal.SIGTSTP:
                self.is_to_pause = True
                return
            now_s = time.monotonic()
            heard_s = self._heard_s.get(number)
            if number not in STOPS or heard_s is None or now_s - heard_s >= SAME_S:
                self._heard_s[number] = now_s
                self.numbers.append(number)

        wanted: Sequence[signal.Signals] = (*STOPS, signal.SIGTSTP, *others)
        before = {number: signal.getsignal(number) for number in wanted}
        for number, handler in before.items():
            if handler != signal.SIG_IGN:
                signal.signal(number, remember)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
