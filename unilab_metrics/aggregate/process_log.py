"""What a helper process says: lines on its standard output, which is its log file."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import datetime

_STDOUT, _STDERR = 1, 2
_fd = _STDOUT


@contextmanager
def said_on_stderr() -> Generator[None, None, None]:
    """Within the block: for a command whose standard output is its answer."""
    global _fd  # noqa: PLW0603 (where a process's log goes is a matter of the process)
    before, _fd = _fd, _STDERR
    try:
        yield
    finally:
        _fd = before


def say(text: str) -> None:
    """One line with its time, at once. Never raises: a full disk under the log must not end
    the process, and nothing waits in a buffer for one."""
    now = datetime.now().astimezone().isoformat(sep=" ", timespec="milliseconds")
    with suppress(OSError):
        os.write(_fd, f"{now} {text}\n".encode("utf-8", "backslashreplace"))
