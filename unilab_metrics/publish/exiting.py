"""Being called when the process ends in an orderly way, however it was started."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable
from typing import Any


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
