"""What a helper process says: lines on its standard output, which is its log file."""

from __future__ import annotations


def say(text: str) -> None:
    """One line, at once. Never raises: a full disk under the log must not end the process."""
    try:
        print(text, flush=True)  # noqa: T201 - this is the process's log
    except OSError:
        return
