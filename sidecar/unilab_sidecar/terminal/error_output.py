"""The one place where words of errors go to the terminal: they may quote what another machine, a
file or a user has written."""

from __future__ import annotations

import contextlib
import os
import sys

from unilab_sidecar.drawing.text import clean


def say_error(text: str) -> None:
    """A line on the error stream, with nothing in it that a terminal would act on. An error stream
    that takes nothing is no error."""
    words = f"{clean(text)}\n"
    try:
        sys.stderr.write(words)
        sys.stderr.flush()
    except (OSError, AttributeError):
        _turn_off()
    except ValueError:
        # Closed, or of an encoding that does not know the character.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(words.encode("ascii", "backslashreplace").decode())


def _turn_off() -> None:
    """What is still buffered must not raise at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.dup2(null, sys.stderr.fileno())
        finally:
            os.close(null)
