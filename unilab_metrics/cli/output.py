"""What a command says: whole lines, whatever the terminal, the pipe or the names in them are."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import re
import sys

import click

from unilab_metrics.errors import why

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
_ESCAPING = "unilab-metrics"


def say(line: str, *, err: bool = False) -> None:
    """One line. Control characters, which names may have, are shown and not sent to the terminal.

    A reader that has gone away, as ``head`` does, is no failure, and neither is an error output
    that takes nothing: what the command found is in its exit code all the same. Raises
    ``OSError`` for a standard output that is full.
    """
    try:
        click.echo(_CONTROL.sub(_shown, line), err=err)
    except BrokenPipeError:
        _silence(sys.stderr if err else sys.stdout)
    except OSError as error:
        _silence(sys.stderr if err else sys.stdout)
        if not err:
            raise OSError(error.errno, why(error), "standard output") from error


def say_json(text: str) -> None:
    """A whole document, which keeps its lines."""
    for line in text.split("\n"):
        say(line)


def prepare_streams() -> None:
    """Let both outputs take every name: bytes that are no text as they are where the encoding is
    UTF-8, escaped elsewhere."""
    codecs.register_error(_ESCAPING, _escape)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors=_ESCAPING)


def _escape(error: UnicodeError) -> tuple[str | bytes, int]:
    if isinstance(error, UnicodeEncodeError) and error.encoding.replace("-", "").lower() == "utf8":
        with contextlib.suppress(UnicodeError):
            return codecs.lookup_error("surrogateescape")(error)
    return codecs.lookup_error("backslashreplace")(error)


def _shown(found: re.Match[str]) -> str:
    return repr(found[0])[1:-1]


def _silence(stream: object) -> None:
    """What is still in its buffer must not fail once more at the exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.dup2(null, stream.fileno())  # type: ignore[attr-defined]
        finally:
            os.close(null)
