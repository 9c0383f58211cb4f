"""An app that shares its terminal with a shell: job control, signals, the cursor."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from functools import partial
from typing import Any

from textual.app import App

from unilab_sidecar.feeding.batch import Failure
from unilab_sidecar.terminal.driver import TerminalDriver
from unilab_sidecar.terminal.updates import economical

_SHOW_CURSOR = "\x1b[?25h"


class SharedTerminalApp(App[Failure | None]):
    """All methods belong to the main thread. ``shows_cursor``: for those who read with it."""

    shows_cursor = False
    is_job: bool | None = None
    """Whether a shell can continue us, where our parent knows."""

    def _display(self, *arguments: Any, **more: Any) -> None:
        made = [economical(one) for one in arguments]
        super()._display(*made, **more)  # pyright: ignore[reportUnknownMemberType]

    def say_no_job(self) -> None:
        """What is to be said where Ctrl+Z stops nothing."""

    def action_put_aside(self) -> None:
        """Ctrl+Z: as of any program that a shell has started. Of a training's own view, whose job
        is the training, it stops nothing and says so."""
        if leads_a_job() if self.is_job is None else self.is_job:
            self.put_aside()
        else:
            self.say_no_job()

    def put_aside(self) -> None:
        """Stop, with the terminal as it was before, until somebody continues us."""
        driver = self._driver
        if isinstance(driver, TerminalDriver):
            driver.leave()
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            # To this very thread, so that it has happened before the next line.
            signal.raise_signal(signal.SIGTSTP)
            self.take_signals()

    def look_at_terminal(self, *, is_changed: bool = False) -> None:
        """Leaves the terminal to another process group that has it, and takes it back after.
        ``is_changed``: somebody else may have used it meanwhile."""
        driver = self._driver
        if not isinstance(driver, TerminalDriver):
            return
        if driver.is_gone:
            self.exit(None, 128 + signal.SIGHUP)
        elif not driver.is_ours():
            driver.leave()
        elif driver.is_away or is_changed:
            driver.come_back()
            self.keep_cursor()
            self.refresh(layout=True)

    def keep_cursor(self) -> None:
        """Leave the terminal's cursor visible, if that is wished."""
        if self.shows_cursor and isinstance(self._driver, TerminalDriver):
            self._driver.write(_SHOW_CURSOR)
            self._driver.flush()

    def take_signals(self) -> None:
        """Have signals close the app, put it aside and bring it back."""
        # Without a handler each would leave the alternate screen and raw mode behind.
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            # Only the main thread can; in a test the app may run in another.
            with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
                loop.add_signal_handler(number, self.exit, None, 128 + number)
        with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
            loop.add_signal_handler(signal.SIGTSTP, self.put_aside)
            loop.add_signal_handler(signal.SIGCONT, partial(self.look_at_terminal, is_changed=True))


def leads_a_job() -> bool:
    """Whether this process is a job of a shell that can continue it: it leads its process group,
    and its parent is in the same session. A training's own view is a member of its job only, and
    what a terminal window or ssh runs without a shell has nobody to continue it."""
    try:
        return os.getpgrp() == os.getpid() != os.getsid(0) and os.getsid(os.getppid()) == os.getsid(
            0
        )
    except OSError:
        return False
