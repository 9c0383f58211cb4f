"""What a helper process says: lines on its standard output, which is its log file."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import datetime

_STDOUT = 1


def say(text: str) -> None:
    """One line with its time, at once. Never raises: a full disk under the log must not end
    the process, and nothing waits in a buffer for one."""
    now = datetime.now().astimezone().isoformat(sep=" ", timespec="milliseconds")
    with suppress(OSError):
        os.write(_STDOUT, f"{now} {text}\n".encode("utf-8", "backslashreplace"))
