"""A word on what the end of a training waits for, to the person who waits too.

Only rank 0 says it, whose ``close()`` waits for all others, and only on a terminal: a person
there sees a process that seems to hang, while a log file would only be told of what is normal.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from unilab_metrics.publish import unsent

TELL_AFTER_S = 2.0
"""A run usually ends sooner than that."""
_WORTH_IT_S = 1.0


def join(thread: threading.Thread, timeout_s: float, awaited: Callable[[], str]) -> None:
    """Wait for ``thread`` for at most ``timeout_s``. ``awaited``: asked once, when it takes long,
    for whom or what that is; empty if nobody is to be told."""
    first_s = min(max(timeout_s, 0.0), TELL_AFTER_S)
    thread.join(first_s)
    left_s = timeout_s - first_s
    if left_s <= 0.0 or not thread.is_alive():
        return
    if left_s >= _WORTH_IT_S and _is_watched() and (what := awaited()):
        more = f"at most {left_s:.0f} s more; Ctrl+C ends the wait and loses nothing"
        unsent.write_line(f"waiting for {what}, {more}")
    thread.join(left_s)


def _is_watched() -> bool:
    try:
        return sys.stderr.isatty()
    except Exception:  # noqa: BLE001 (the training may have put anything there, or closed it)
        return False
