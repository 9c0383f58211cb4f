"""When a rank should stop before its last iteration: a signal, or its launcher is gone."""

from __future__ import annotations

import os
import select
import signal
from types import FrameType

LIFELINE_VARIABLE = "UNILAB_DEMO_LIFELINE"
"""Number of an inherited file descriptor whose other end the launcher holds open."""


class StopRequest:
    """The first SIGINT or SIGTERM asks; a second SIGINT interrupts as usual."""

    def __init__(self) -> None:
        self.reason: str | None = None
        """Why the rank should stop, ``None`` while it should go on."""
        self._lifeline: int | None = None
        self._poll = select.poll()

    def install(self) -> None:
        """Takes over the signals and the lifeline of this process. Main thread only."""
        signal.signal(signal.SIGINT, self._on_signal)
        signal.signal(signal.SIGTERM, self._on_signal)
        lifeline = os.environ.pop(LIFELINE_VARIABLE, None)
        if lifeline is not None:
            self._lifeline = int(lifeline)
            os.set_inheritable(self._lifeline, False)
            self._poll.register(self._lifeline, select.POLLIN)

    def check(self) -> str | None:
        """The reason, after a look at the lifeline; costs one system call."""
        if self._lifeline is not None and self.reason is None and self._poll.poll(0):
            self.reason = "the launcher is gone"
        return self.reason

    def ask(self, reason: str) -> None:
        """Asks to stop unless somebody has already."""
        self.reason = self.reason or reason

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self.reason = f"interrupted by {signal.Signals(number).name}"
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)
