"""Lines on standard output: the shell around ``plain``."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import TextIO

from unilab_metrics.errors import ExitCode
from unilab_sidecar.batch import Failure
from unilab_sidecar.feed import Feed
from unilab_sidecar.plain import Teller, run_plain


def run_printed(feed: Feed, teller: Teller, *, once: bool, wait: bool) -> Failure | None:
    """Writes what ``teller`` says until the run is over, SIGINT or SIGTERM; see
    :func:`unilab_sidecar.plain.run_plain`. Belongs to the main thread."""
    stopped = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    thread = threading.Thread(target=feed.run, name="sidecar-feed", daemon=True)
    thread.start()
    # A descriptor that was closed makes no stream at all.
    output: TextIO = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115
    if callable(reconfigure := getattr(output, "reconfigure", None)):
        reconfigure(errors="replace")

    def write(text: str) -> None:
        try:
            output.write(text + "\n")
            output.flush()
        except OSError as error:
            raise _OutputError(error) from error

    try:
        return run_plain(feed, write, once=once, wait=wait, teller=teller, stopped=stopped.is_set)
    except _OutputError as error:
        turn_off(output)
        return error.failure
    finally:
        feed.stop()
        thread.join(timeout=2.0)


class _OutputError(Exception):
    """Lines cannot be written any more. ``failure``: ``None`` if nobody reads them."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        text = f"standard output: {error.strerror or error}"
        is_unread = isinstance(error, BrokenPipeError)
        self.failure = None if is_unread else Failure(text, ExitCode.UNEXPECTED)


def turn_off(stream: TextIO) -> None:
    """Make nothing of whatever is written from now on."""
    # What is still buffered must not raise at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
