"""What is said on the terminal of requests that the web server could not answer.

Whoever reaches the port may send what is no HTTP, as often as he likes: nothing is said of that. What
is our own fault is one line.
"""

from __future__ import annotations

import logging

from aiohttp.http_exceptions import HttpProcessingError

from unilab_sidecar.terminal.error_output import say_error


class _Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            return
        why = "" if error is None else f": {type(error).__name__}: {error}"
        say_error(f"unilab-metrics: {record.getMessage()}{why}")


def complaints() -> logging.Logger:
    """For aiohttp, which would print tracebacks. Any thread."""
    logger = logging.getLogger(__name__)
    logger.setLevel(logging.WARNING)
    logger.handlers, logger.propagate = [_Lines()], False
    return logger
