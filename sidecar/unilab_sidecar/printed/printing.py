"""Lines on standard output: the shell around ``plain``."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TextIO

from unilab_metrics.errors import ExitCode
from unilab_sidecar.feeding.batch import Failure
from unilab_sidecar.feeding.feed import Feed
from unilab_sidecar.feeding.feed_thread import FeedThread
from unilab_sidecar.printed.plain import Teller, run_plain


def run_printed(
    feed: Feed,
    teller: Teller,
    *,
    once: bool,
    wait: bool,
    stays: bool = False,
    is_past: bool = False,
    first_lines: Sequence[str] = (),
) -> Failure | None:
    """Writes ``first_lines``, and what ``teller`` says until the run is over, SIGINT or SIGTERM; see
    :func:`unilab_sidecar.printed.plain.run_plain`. Of SIGTERM it says so, without a text. Belongs to the
    main thread."""
    stopped = threading.Event()
    told: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        told.append(number)
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    thread = FeedThread(feed)
    thread.begin()
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
        for line in first_lines:
            write(line)
        failure = run_plain(
            feed,
            write,
            once=once,
            wait=wait,
            stays=stays,
            is_past=is_past,
            teller=teller,
            stopped=stopped.is_set,
        )
        if failure is None and signal.SIGTERM in told:
            return Failure("", 128 + signal.SIGTERM)
        if told and output.isatty():
            # The terminal has written ^C, and a shell goes on behind it.
            write("")
        return failure
    except _OutputError as error:
        turn_off(output)
        return error.failure
    finally:
        thread.end()


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
