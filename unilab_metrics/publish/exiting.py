"""Being called when the process ends in an orderly way, and seeing what ends it."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from unilab_metrics.outcome import FAILED, STOPPED

EXIT_TIMEOUT_S = 0.5
FAILED_TIMEOUT_S = 10.0
"""An exception waits to be shown meanwhile, and nobody may have told the collectors to end."""
_MAX_TEXT = 2000
_STOP_CODES = (128 + signal.SIGINT, 128 + signal.SIGTERM)


def call_at_exit(callback: Callable[[], object]) -> None:
    """Call ``callback`` at the interpreter's exit, and at the end of a child process of
    ``multiprocessing``, which may end without one. It must be idempotent."""
    atexit.register(callback)
    # Not imported: who was started by multiprocessing has it.
    process: Any = sys.modules.get("multiprocessing.process")
    util: Any = sys.modules.get("multiprocessing.util")
    if process is not None and util is not None and process.parent_process() is not None:
        util.Finalize(None, callback, exitpriority=0)


def forget_exit(callback: Callable[[], object]) -> None:
    """Let the interpreter forget it; harmless for others."""
    atexit.unregister(callback)


def exit_wait_s(close_timeout_s: float, *, bus_seen: bool) -> float:
    """How long the interpreter's exit waits: shortly when no aggregator was ever found, unless
    this is the first process of a container, with which every helper is killed."""
    return close_timeout_s if bus_seen or os.getpid() == 1 else EXIT_TIMEOUT_S


def failure(error: BaseException | None = None) -> BaseException | None:
    """What ends this process (or, with ``error``, a ``with`` block), ``None`` if it ends well.

    For callbacks at the exit. An exception that nobody caught is seen, Ctrl+C too, whatever
    hook prints it. A main program that ends by ``sys.exit(n)`` cannot be told from one that
    ends with 0: Python has forgotten the number by then.
    """
    # A child of multiprocessing runs its callbacks while the exception still passes by.
    error = error or sys.exc_info()[1] or _uncaught()
    if isinstance(error, SystemExit) and error.code in (None, 0):
        return None
    return error


def status_of(error: BaseException) -> str:
    """``stopped`` where somebody ended the process on purpose, which is no failure: Ctrl+C, or an
    exit with what a shell calls a SIGINT or SIGTERM. Else ``failed``."""
    is_told = isinstance(error, SystemExit) and error.code in _STOP_CODES
    return STOPPED if is_told or isinstance(error, KeyboardInterrupt) else FAILED


def describe(error: BaseException) -> tuple[str, str]:
    """Type and text of an exception; never raises, the text is never empty."""
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 (an exception's own code may do anything)
        text = ""
    return name, text[:_MAX_TEXT] or name


def _uncaught() -> BaseException | None:
    # The interpreter leaves it here before it calls ``sys.excepthook``, which others replace.
    # At a prompt every mistake is left here, and none of them ends the process.
    if hasattr(sys, "ps1"):
        return None
    return getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
