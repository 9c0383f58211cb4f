"""The Textual app: a feed thread, a series, and a sheet painted at a fixed 2 Hz."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content

from unilab_sidecar.alerts import alerts
from unilab_sidecar.batch import Failure
from unilab_sidecar.feed import Feed
from unilab_sidecar.picture import Picture
from unilab_sidecar.series import Series
from unilab_sidecar.terminal_driver import TerminalDriver
from unilab_sidecar.views.overview import layout
from unilab_sidecar.widgets.sheet import Sheet
from unilab_sidecar.widgets.title_bar import TitleBar

REPAINT_S = 0.5
CATCH_UP_S = 0.02
LINGER_S = 3.0
"""How long the last picture stays when the app closes with the run."""
NOTE_S = 4.0
NO_JOB = "Ctrl+Z stops nothing here · q close"


class SidecarApp(App[Failure | None]):
    """Shows a run until it is closed. Reads only: nothing here can reach the training.

    The result is the feed's failure if that is why the app closed, else ``None``.
    """

    CSS_PATH = Path(__file__).parent / "sidecar.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "close"),
        Binding("ctrl+c", "quit", "close", priority=True, show=False),
        Binding("ctrl+z", "put_aside", "put aside", priority=True, show=False),
    ]

    def __init__(self, feed: Feed, *, exit_with_run: bool = False) -> None:
        """``exit_with_run``: close a few seconds after the run has ended."""
        super().__init__(driver_class=TerminalDriver)
        self.theme = "tokyo-night"
        self._feed = feed
        self._exit_with_run = exit_with_run
        self._series = Series(feed.run_dir)
        self._picture = Picture()
        self._title_bar = TitleBar()
        self._sheet = Sheet()
        self._hint = ""
        self._noted_until_s = 0.0
        self._catching_up = False
        self._ended_s: float | None = None
        self._thread = threading.Thread(target=feed.run, name="sidecar-feed", daemon=True)

    def compose(self) -> ComposeResult:
        """The title on the frame, and one sheet that fills the rest."""
        yield self._title_bar
        yield self._sheet

    def on_mount(self) -> None:
        """Starts the feed and the clock."""
        self._take_signals()
        self._sheet.focus()
        self._thread.start()
        self.set_interval(REPAINT_S, self.tick)
        self._paint()

    def on_unmount(self) -> None:
        """Ends the feed; its thread is gone before the app returns."""
        self._feed.stop()
        if self._thread.is_alive():
            self._thread.join(timeout=2.0)

    def on_resize(self) -> None:
        """Lays out again at once, not at the next tick."""
        self._paint()

    def tick(self) -> None:
        """Takes what has come since the last tick and repaints what it changed."""
        self._look_at_terminal()
        batches = self._feed.take()
        for batch in batches:
            if batch.failure is not None:
                self.exit(batch.failure, return_code=batch.failure.exit_code)
                return
            self._series.add(batch)
        if batches:
            self._picture = self._series.picture()
            self._paint()
        if self._series.behind and not self._catching_up:
            # A long history is read at full speed, not a few thousand entries per picture.
            self._catching_up = True
            self.set_timer(CATCH_UP_S, self._catch_up)
        self._close_with_run()

    def _catch_up(self) -> None:
        self._catching_up = False
        self.tick()

    def action_put_aside(self) -> None:
        """Ctrl+Z: as of any program that a shell has started. Of a training's own view, whose job
        is the training, it stops nothing and says so."""
        if leads_a_job():
            self._put_aside()
        else:
            self._noted_until_s = time.monotonic() + NOTE_S
            self._paint()

    def _put_aside(self) -> None:
        driver = self._driver
        if isinstance(driver, TerminalDriver):
            driver.leave()
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            # To this very thread, so that it has happened before the next line.
            signal.raise_signal(signal.SIGTSTP)
            self._take_signals()

    def _look_at_terminal(self, *, is_changed: bool = False) -> None:
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
            self.refresh(layout=True)

    def _paint(self) -> None:
        screen = layout(self._picture, self.size.width, self.size.height)
        hint = screen.hint
        if hint and time.monotonic() < self._noted_until_s:
            hint = NO_JOB
        if hint != self._hint:
            self._hint = hint
            self._sheet.border_subtitle = Content(hint)
        troubled = any(alert.style == "bad" for alert in alerts(self._picture))
        is_complete = self._picture.ended == "completed"
        self.screen.set_class(is_complete, "-ended")
        self.screen.set_class(troubled and not is_complete, "-trouble")
        self._title_bar.show(screen.title)
        self._sheet.show(screen.lines)

    def _close_with_run(self) -> None:
        if not self._exit_with_run:
            return
        if self._picture.ended is None:
            self._ended_s = None
        elif self._ended_s is None:
            self._ended_s = time.monotonic()
        elif time.monotonic() - self._ended_s >= LINGER_S:
            self.exit(None)

    def _take_signals(self) -> None:
        # Without a handler SIGTERM would leave the alternate screen and raw mode behind.
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            # Only the main thread can; in a test the app may run in another.
            with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
                loop.add_signal_handler(number, self.exit, None, 128 + number)
        with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
            loop.add_signal_handler(signal.SIGTSTP, self._put_aside)
            loop.add_signal_handler(
                signal.SIGCONT, partial(self._look_at_terminal, is_changed=True)
            )


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
