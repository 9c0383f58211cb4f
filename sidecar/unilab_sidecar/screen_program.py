"""What a sidecar's command line says of the screen, done: colours, keys, signals, who may stop."""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from unilab_metrics.early_interrupts import raise_interrupts
from unilab_sidecar.feeding.batch import Failure
from unilab_sidecar.feeding.feed_thread import FeedThread
from unilab_sidecar.terminal.charsets import shows_unicode

if TYPE_CHECKING:
    from textual.driver import Driver

    from unilab_sidecar.feeding.questions import StopQuestion


def run_screen(
    thread: FeedThread, options: argparse.Namespace, before: list[Any] | None
) -> tuple[Failure | None, int]:
    """Shows the run until it is closed: why it had to, if it had, and the exit code. ``thread`` begins
    to read here and is its caller's to end; ``before``: how the terminal was. Main thread only."""
    # Textual takes a while to import, in which the run can be read, and plain lines do not need it.
    # All that imports make stays: to look through it for garbage would be a tenth of the time, now
    # and with every picture.
    gc.disable()
    thread.begin()
    from unilab_sidecar.app import SidecarApp
    from unilab_sidecar.terminal.driver import TerminalDriver

    gc.freeze()
    gc.enable()

    in_browser = bool(options.browser)
    is_elsewhere = options.key is not None or options.replay is not None
    may_stop = bool(options.allow_control) and not is_elsewhere
    unicode = in_browser or shows_unicode(os.environ)
    unicode = unicode if options.unicode is None else bool(options.unicode)
    app = SidecarApp(
        thread.feed,
        exit_with_run=bool(options.exit_with_run),
        unicode=unicode,
        theme=options.theme or "",
        shows_cursor=bool(options.cursor),
        environ=dict(os.environ),
        remembers=not in_browser,
        stop=_stopping(Path(options.run)) if may_stop else None,
        driver=_browser_driver() if in_browser else TerminalDriver,
        rings=bool(options.bell),
        keep=keeping(options),
        thread=thread,
    )
    app.is_job = None if options.guarded is None else options.guarded == "job"
    TerminalDriver.first = before
    if options.launched:
        # What came while we started was for whoever has started us; from now on it is a key.
        signal.signal(signal.SIGINT, _nothing)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    elif options.guarded is not None:
        # Until now whoever guards us heard Ctrl+C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    raise_interrupts()
    # Nothing here is clicked, and text is selected and copied as in any terminal.
    failure = app.run(mouse=in_browser)
    return failure, app.return_code or 0


def _nothing(_number: int, _frame: FrameType | None) -> None:
    pass


def _stopping(run_dir: Path) -> StopQuestion:
    from unilab_metrics.subscribe.stopping import Stopping
    from unilab_sidecar.feeding.questions import StopQuestion

    stopping = Stopping(run_dir)
    return StopQuestion(stopping.ask, stopping.goes_on)


def keeping(options: argparse.Namespace) -> Callable[[], object] | None:
    """What a key does that keeps the screen after the run's end: a launcher is to wait for it."""
    if options.keep is None:
        return None if options.launched else lambda: None
    told = int(options.keep)

    def keep() -> None:
        with contextlib.suppress(OSError):
            os.write(told, b".")

    return keep


def _browser_driver() -> type[Driver]:
    from unilab_sidecar.terminal.web_driver import BrowserDriver

    return BrowserDriver
